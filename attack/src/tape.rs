//! The log of a boot of the host: what devices, host and guests did, in one order, and the crash states that can be made of it. It must
//! not know how it came about.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use lode_types::Rng;
use serde::{Deserialize, Serialize};

use crate::image::{Image, PAGE_BYTES};
use crate::medium::{DeviceEvent, Medium};
use crate::model::{Change, GuestEvent, Model};
use crate::state::StateFiles;

/// One entry.
#[derive(Clone, Debug)]
pub enum TapeEntry {
    /// At a device.
    Device(usize, DeviceEvent),
    /// The daemon's files on its host changed, durably.
    State(Arc<StateFiles>),
    /// At the guest of a VM.
    Guest(usize, GuestEvent),
}

/// What a daemon finds when it starts, and what its guests may find then.
#[derive(Clone, Debug)]
pub struct Start {
    /// The devices.
    pub images: Vec<Image>,
    /// The daemon's files on its host.
    pub state: Arc<StateFiles>,
    /// The VMs' disks.
    pub models: Vec<Model>,
}

/// All but the images.
#[derive(Serialize, Deserialize)]
struct Saved {
    state: StateFiles,
    models: Vec<Model>,
    sizes: Vec<u64>,
}

impl Start {
    /// Writes it into a folder, so that it can be tried again.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for (number, image) in self.images.iter().enumerate() {
            let file = fs::File::create(folder.join(format!("device-{number}.img")))?;
            file.set_len(image.size_bytes())?;
            for page in image.allocated_pages() {
                let offset = page * PAGE_BYTES;
                std::os::unix::fs::FileExt::write_all_at(&file, &image.read(offset, PAGE_BYTES), offset)?;
            }
        }
        let sizes = self.images.iter().map(Image::size_bytes).collect();
        let saved = Saved { state: (*self.state).clone(), models: self.models.clone(), sizes };
        fs::write(folder.join("start.json"), serde_json::to_vec(&saved)?)
    }

    /// Reads what [`Start::save`] wrote.
    pub fn load(folder: &Path) -> io::Result<Start> {
        let saved: Saved = serde_json::from_slice(&fs::read(folder.join("start.json"))?)?;
        let mut images = Vec::new();
        for (number, &size) in saved.sizes.iter().enumerate() {
            let bytes = fs::read(folder.join(format!("device-{number}.img")))?;
            let mut image = Image::new(size);
            image.write_pages(&bytes);
            images.push(image);
        }
        Ok(Start { images, state: Arc::new(saved.state), models: saved.models })
    }
}

/// A log with its beginning.
#[derive(Debug)]
pub struct Tape {
    /// Before the first event.
    pub start: Start,
    /// What happened.
    pub events: Vec<TapeEntry>,
}

impl Tape {
    /// A moment for a power cut: any, or one just after something was promised. Each kind of promise is as likely, because
    /// those that are seldom given are soon made good by others that follow.
    pub fn moment(&self, rng: &mut Rng) -> usize {
        let any = rng.below(self.events.len() as u64 + 1) as usize;
        let wanted = [None, None, None, Some(Promise::Flush), Some(Promise::Write), Some(Promise::Zeroes)]
            [rng.below(6) as usize];
        let given = |(at, event): (usize, &TapeEntry)| {
            (wanted.is_some() && promise(event) == wanted).then_some(at + 1)
        };
        let moments: Vec<usize> = self.events.iter().enumerate().filter_map(given).collect();
        if moments.is_empty() { any } else { moments[rng.below(moments.len() as u64) as usize] }
    }

    /// Flushes that came while a write to the same device was under way, which they do not cover.
    pub fn flushes_among_writes(&self) -> u64 {
        let mut under_way = vec![0u64; self.start.images.len()];
        let mut met = 0;
        for event in &self.events {
            let TapeEntry::Device(device, event) = event else { continue };
            match event {
                DeviceEvent::WriteBegan { .. } => under_way[*device] += 1,
                DeviceEvent::WriteEnded { .. } => under_way[*device] -= 1,
                DeviceEvent::FlushBegan { .. } => met += u64::from(under_way[*device] > 0),
                DeviceEvent::FlushEnded { .. } => {}
            }
        }
        met
    }

    /// Goes through it from the beginning.
    pub fn player(&self) -> Player<'_> {
        Player {
            events: &self.events,
            at: 0,
            media: self.start.images.iter().cloned().map(Medium::new).collect(),
            state: self.start.state.clone(),
            models: self.start.models.clone(),
        }
    }
}

/// Kinds of promises that something is durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// An answer to FLUSH, or an orderly stop.
    Flush,
    /// To a write with FUA.
    Write,
    /// To zeroing or a trim with FUA.
    Zeroes,
}

/// What an event promises.
fn promise(event: &TapeEntry) -> Option<Promise> {
    let TapeEntry::Guest(_, event) = event else { return None };
    match event {
        GuestEvent::FlushAcknowledged { .. } | GuestEvent::Stopped => Some(Promise::Flush),
        GuestEvent::Acknowledged { durable: true, change: Change::Data, .. } => Some(Promise::Write),
        GuestEvent::Acknowledged { durable: true, .. } => Some(Promise::Zeroes),
        _ => None,
    }
}

/// A moment of a tape.
pub struct Player<'t> {
    events: &'t [TapeEntry],
    at: usize,
    media: Vec<Medium>,
    state: Arc<StateFiles>,
    models: Vec<Model>,
}

impl Player<'_> {
    /// Goes on to the moment before event number `to`, which is not earlier than where it is.
    pub fn advance(&mut self, to: usize) {
        for event in &self.events[self.at..to] {
            match event {
                TapeEntry::Device(device, event) => self.media[*device].apply(event),
                TapeEntry::State(files) => self.state = files.clone(),
                TapeEntry::Guest(vm, event) => self.models[*vm].apply(event),
            }
        }
        self.at = to;
    }

    /// What the next start finds when the power fails now.
    ///
    /// # Errors
    /// When the system does not say which boot this is.
    pub fn after_power_cut(&self, rng: &mut Rng) -> io::Result<Start> {
        Ok(Start {
            images: self.media.iter().map(|medium| medium.after_power_cut(rng)).collect(),
            state: Arc::new(self.state.of_an_earlier_boot(rng.bits())?),
            models: self.models.iter().map(Model::after_power_cut).collect(),
        })
    }

    /// How many writes no flush covers, on all devices.
    pub fn volatile_writes(&self) -> usize {
        self.media.iter().map(Medium::volatile_writes).sum()
    }
}
