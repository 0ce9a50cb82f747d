//! Shares of what VMs divide, as a daemon tells them, in words. It must not know where the answers come from.

use serde::Deserialize;

use crate::amounts::show_size;

/// What VMs divide.
#[derive(Clone, Debug, Deserialize)]
pub struct Host {
    pub mode: String,
    pub block_bytes: u64,
    pub dram_blocks: u64,
    pub ssd_blocks: u64,
    pub interval_s: u64,
    pub next_division_s: Option<u64>,
    pub ssd_write_budget_bytes_per_day: Option<u64>,
    pub moving: bool,
    pub ssd_grows: bool,
    pub stopped: bool,
}

/// A change under way, for which others wait.
#[derive(Clone, Debug, Deserialize)]
pub struct ChangeNow {
    pub text: String,
    pub for_s: u64,
    pub waiting: u64,
}

impl ChangeNow {
    /// As a line.
    pub fn line(&self) -> String {
        let waiting = match self.waiting {
            0 => String::new(),
            1 => "; 1 other change waits for that".to_owned(),
            many => format!("; {many} other changes wait for that"),
        };
        format!("Change under way for {}: {}{waiting}", time(self.for_s), self.text)
    }
}

/// What one VM has of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Sharing {
    pub weight: f64,
    pub ssd_write_budget_bytes_per_day: Option<u64>,
    pub dram: Level,
    pub ssd: Level,
    pub expected_hit_ratio: Option<f64>,
    pub measured_hit_ratio: Option<f64>,
}

/// A share of one level.
#[derive(Clone, Debug, Deserialize)]
pub struct Level {
    pub share_blocks: u64,
    pub target_blocks: u64,
    pub wanted_blocks: u64,
    pub demand_blocks: Option<u64>,
    pub min_blocks: u64,
    pub max_blocks: u64,
    pub reach_blocks: u64,
    pub expected_hit_ratio: Option<f64>,
    pub measured_hit_ratio: Option<f64>,
}

impl Host {
    /// Blocks as a size.
    pub fn size(&self, blocks: u64) -> String {
        show_size(blocks * self.block_bytes)
    }

    /// How the host divides, in a line or two; nothing where nobody divides.
    pub fn text(&self) -> Option<String> {
        let alarm = "Alarm: a defect of the program ended changes of shares, keys and VMs: report what the daemon's log says, and \
                     restart the daemon";
        if self.mode == "fixed" {
            return self.stopped.then(|| alarm.to_owned());
        }
        let what = match self.mode.as_str() {
            "auto" => "Shares follow demands",
            _ => "Shares are fixed, and what demands would give is told",
        };
        let next = self.next_division_s.map(|s| format!(", next in {}", time(s))).unwrap_or_default();
        let [dram, ssd] = [self.dram_blocks, self.ssd_blocks].map(|blocks| self.size(blocks));
        let mut text = format!(
            "{what} (mode {}): {dram} of DRAM and {ssd} of SSD, every {}{next}",
            self.mode,
            time(self.interval_s)
        );
        if self.moving {
            text += "; shares are moving";
        }
        if self.ssd_blocks > 0 && !self.ssd_grows {
            text += "\nSome VMs can have more of the SSD than they were started with room for only after a restart (`lode vm show`)";
        }
        if self.stopped {
            text += &format!("\n{alarm}");
        }
        Some(text)
    }
}

impl Sharing {
    /// The shares in force and what the VM could use, in a line.
    pub fn text(&self, host: &Host) -> String {
        let of_level = |(name, level): (&str, &Level)| {
            let demand = level.demand_blocks.map(|blocks| format!(", could use {}", host.size(blocks)));
            let has_any = level.share_blocks > 0 || level.target_blocks > 0 || level.max_blocks > 0;
            has_any.then(|| format!("{name} {}{}", level.share(host), demand.unwrap_or_default()))
        };
        let levels: Vec<String> =
            [("DRAM", &self.dram), ("SSD", &self.ssd)].into_iter().filter_map(of_level).collect();
        if levels.is_empty() { "no share of any level".to_owned() } else { levels.join("; ") }
    }
}

impl Level {
    /// What is in force, and what it is to become.
    pub fn share(&self, host: &Host) -> String {
        match (self.share_blocks, self.target_blocks) {
            // Its scheme does not use the level, and otherwise it has nothing of it for now.
            (0, 0) if self.max_blocks == 0 => "-".to_owned(),
            (0, 0) => "0".to_owned(),
            (share, target) if share == target => host.size(share),
            (share, target) => format!("{} to {}", host.size(share), host.size(target)),
        }
    }

    /// What the VM could use.
    pub fn demand(&self, host: &Host) -> String {
        self.demand_blocks.map_or_else(|| "-".to_owned(), |blocks| host.size(blocks))
    }
}

/// A share of reads as a percentage.
pub fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}", 100.0 * ratio))
}

/// Seconds in the largest unit in which they are a short number.
pub fn time(s: u64) -> String {
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}
