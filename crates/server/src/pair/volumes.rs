//! One volume's commands to the pairs that its cache is on. Which pair a command goes to is [`ArrayCommands`]', and what becomes of it there
//! [`VolumePair`]'s. It must not know members, or engines.

use std::sync::Arc;

use lode_engine::command::{CommandKind, MediaError};
use lode_format::VolumeTag;
use lode_media::{Done, FileId, MediaFile};
use lode_store::pair::{ArrayCommands, MEMBERS, PairCommand, PairEnd, PairNews, PairOptions, Stripes};

use super::served::ServedPair;
use super::volume::{FileChange, VolumePair};

/// The pairs that a cache is served from.
#[derive(Clone)]
pub(crate) struct ServedPairs {
    /// In the order of their numbers.
    pub pairs: Vec<Arc<ServedPair>>,
    /// Where the cache is on them.
    pub stripes: Arc<Stripes>,
}

impl ServedPairs {
    /// Carries a write of the directory out on the pairs that it is on, or a flush on all of them, see [`ServedPair::run_now`].
    pub(crate) fn run_now(&self, kind: CommandKind) -> Result<(), MediaError> {
        let mut result = Ok(());
        let mut commands = ArrayCommands::new(Arc::clone(&self.stripes));
        let command = PairCommand { id: 0, kind, options: PairOptions::default() };
        commands.begin(command, |pair, command| {
            result = result.and(self.pairs[pair].run_now(&command.kind));
        });
        result
    }
}

/// As [`PairNews`], of all pairs together.
pub(crate) enum PairsNews {
    /// A device was dropped, by its number among those of all pairs.
    Dropped(u16),
    /// A command to the cache has ended.
    End(PairEnd),
}

/// See the module's documentation.
pub(crate) struct VolumePairs {
    commands: ArrayCommands,
    pairs: Vec<VolumePair>,
    /// On which of them a command failed last.
    failed: usize,
}

impl VolumePairs {
    pub(crate) fn new(
        served: ServedPairs,
        tag: VolumeTag,
        mut open: impl FnMut(MediaFile) -> FileId,
    ) -> VolumePairs {
        let ServedPairs { pairs, stripes } = served;
        let pairs = pairs.into_iter().map(|pair| VolumePair::new(pair, tag, &mut open)).collect();
        VolumePairs { commands: ArrayCommands::new(stripes), pairs, failed: 0 }
    }

    /// The files that its commands go to.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileId> {
        self.pairs.iter().flat_map(VolumePair::files)
    }

    /// Blocks that were written again on a member on which they were damaged.
    pub(crate) fn healed(&self) -> u64 {
        self.pairs.iter().map(VolumePair::healed).sum()
    }

    /// Why the pair failed on which a command failed last, in words.
    pub(crate) fn failure(&self) -> String {
        self.pairs[self.failed].failure()
    }

    /// Takes a command to the cache.
    pub(crate) fn begin(&mut self, id: u64, kind: CommandKind, options: PairOptions) {
        let VolumePairs { commands, pairs, .. } = self;
        commands.begin(PairCommand { id, kind, options }, |pair, command| pairs[pair].begin(command));
    }

    /// The next command to a member: its token, its file, and what is to be done there.
    pub(crate) fn next_leg(&mut self) -> Option<(u64, FileId, CommandKind)> {
        let next = |(number, pair): (usize, &mut VolumePair)| Some((number, pair.next_leg()?));
        let (number, (token, file, kind)) = self.pairs.iter_mut().enumerate().find_map(next)?;
        Some((self.commands.token(number, token), file, kind))
    }

    /// Takes the end of a command to a member; `why` is why it failed, if it did.
    pub(crate) fn leg_ended(&mut self, token: u64, done: Done, why: Option<String>) {
        let (number, token) = self.commands.token_of(token);
        self.pairs[number].leg_ended(token, done, why);
    }

    /// As [`VolumePair::leg_ended_stopped`]. On the other pairs nobody has to wait for the volume either.
    pub(crate) fn leg_ended_stopped(&mut self, token: u64, is_ok: bool) {
        let (number, token) = self.commands.token_of(token);
        self.pairs[number].leg_ended_stopped(token, is_ok);
        self.forget_decided();
    }

    /// As [`VolumePair::forget_decided`].
    pub(crate) fn forget_decided(&mut self) {
        self.pairs.iter_mut().for_each(VolumePair::forget_decided);
    }

    /// As [`VolumePair::note`].
    pub(crate) fn note(&mut self) {
        self.pairs.iter_mut().for_each(VolumePair::note);
    }

    /// What is to be done with a file next, and of which pair.
    pub(crate) fn next_file_change(&mut self) -> Option<(usize, FileChange)> {
        let next = |(number, pair): (usize, &mut VolumePair)| Some((number, pair.next_file_change()?));
        self.pairs.iter_mut().enumerate().find_map(next)
    }

    /// The file of a member of a pair is open.
    pub(crate) fn opened(&mut self, pair: usize, member: usize, file: FileId) {
        self.pairs[pair].opened(member, file);
    }

    /// What the volume is to be told next: the end of a command to the cache, as far as it may be told, or which device of all was dropped
    /// ([`Stripes::home`]).
    pub(crate) fn next_news(&mut self) -> Option<PairsNews> {
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            while let Some(news) = pair.next_news() {
                let end = match news {
                    PairNews::Dropped(member) => {
                        return Some(PairsNews::Dropped((number * MEMBERS + member) as u16));
                    }
                    PairNews::End(end) => end,
                };
                if end.result.is_err() {
                    self.failed = number;
                }
                if let Some(end) = self.commands.ended(end) {
                    return Some(PairsNews::End(end));
                }
            }
        }
        None
    }

    /// Where the cache is on its pairs.
    pub(crate) fn stripes(&self) -> &Stripes {
        self.commands.stripes()
    }

    /// About a second has gone by.
    pub(crate) fn tick(&mut self) {
        self.pairs.iter_mut().for_each(VolumePair::tick);
    }
}
