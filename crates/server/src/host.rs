//! The daemon as a whole, as any thread may ask for it: what was known at its start, and its shards. It must not know who
//! asks, or what answers look like.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::commands::PROTOCOL;
use crate::identity::LastEnd;
use crate::messages::ToShard;
use crate::pair::ServedPairs;
use crate::sharing::SharedView;
use crate::status::{CacheView, ReadSsdView, Status, VmView};
use crate::threads::Messenger;

/// How long a shard may take to answer.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Host {
    pub name: String,
    pub last_end: LastEnd,
    pub cache: Option<CacheView>,
    pub read_ssd: Option<ReadSsdView>,
    /// The pairs of SSDs that the cache is on, if it is on any.
    pub pairs: Option<ServedPairs>,
    pub start: Instant,
    /// VM number `i` is volume `i / shards.len()` of shard `i % shards.len()`.
    pub shards: Vec<Messenger>,
    /// Who has which share.
    pub sharing: SharedView,
}

impl Host {
    /// How everything is.
    pub(crate) fn status(&self) -> Result<Status, String> {
        let mut views = self.ask_volumes(|_, sender| ToShard::Status(sender))?;
        let (host, of_vms) = self.sharing.now(|vm| views.get(&vm).map(|view| view.reads)).unzip();
        // In the order of the configuration. A VM that is being added or removed is left out.
        let together = |(number, sharing)| Some(VmView { sharing: Some(sharing), ..views.remove(&number)? });
        let vms = of_vms.unwrap_or_default().into_iter().filter_map(together).collect();
        Ok(Status {
            protocol: PROTOCOL,
            host,
            change: None,
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: self.start.elapsed().as_secs(),
            pool_bytes: lode_types::pool_bytes(),
            last_end: self.last_end,
            cache: self.cache.clone().map(|cache| CacheView {
                pair: self.pairs.as_ref().and_then(ServedPairs::view_of_both),
                ..cache
            }),
            read_ssd: self.read_ssd.clone(),
            danger_zone: Vec::new(),
            vms,
        })
    }

    /// Asks every shard for something of each of its volumes, and waits for the answers; by the numbers of the VMs.
    pub(crate) fn ask_volumes<T>(
        &self,
        message: impl Fn(usize, SyncSender<Vec<(usize, T)>>) -> ToShard,
    ) -> Result<BTreeMap<usize, T>, String> {
        let shards = self.shards.len();
        let answers = self.ask(message)?.into_iter().enumerate();
        let numbered = |(shard, volumes): (usize, Vec<(usize, T)>)| {
            volumes.into_iter().map(move |(at, answer)| (at * shards + shard, answer))
        };
        Ok(answers.flat_map(numbered).collect())
    }

    /// Asks the shard of a VM.
    pub(crate) fn tell(&self, number: usize, message: impl FnOnce(usize) -> ToShard) {
        let shards = self.shards.len();
        self.shards[number % shards].tell(message(number / shards));
    }

    /// Asks every shard, and waits for the answers.
    pub(crate) fn ask<T>(&self, message: impl Fn(usize, SyncSender<T>) -> ToShard) -> Result<Vec<T>, String> {
        let tell = |(number, shard): (usize, &Messenger)| {
            let (sender, receiver) = sync_channel(1);
            shard.tell(message(number, sender));
            receiver
        };
        let answers: Vec<_> = self.shards.iter().enumerate().map(tell).collect();
        let deadline = Instant::now() + ANSWER_LIMIT;
        let receive = |(number, answer): (usize, Receiver<T>)| {
            let answer = answer.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            answer.map_err(|_| format!("Shard {number} does not answer; see the log"))
        };
        answers.into_iter().enumerate().map(receive).collect()
    }
}
