//! What else could be bought for a plan's money: one SSD level. It must not know how the plan came about.

use lode_hardware::Host;
use lode_policy::{Quota, Settings, UNDIVIDED};
use lode_replay::{MAX_LEVEL_BLOCKS, Report};
use lode_types::{Level, show_size};

use crate::front::Prices;
use crate::host_memory::HostMemory;
use crate::levels::LevelBytes;
use crate::load::Load;
use crate::recommend::label_of;
use crate::report::{OneLevelReport, ReplayFigures, ReplayedReport};

/// The scheme of that level: what everybody knows and many run.
pub(crate) const SCHEME: &str = "lru";

/// Its settings besides the defaults: no sets, as the plan has none.
pub(crate) const SETTINGS: [(&str, &str); 1] = [UNDIVIDED];

/// From which part less of a request's mean time it counts as faster.
const FASTER: f64 = 0.01;

/// Up to which part of the SSD writes counts as far fewer.
const FAR_FEWER: f64 = 0.5;

/// An SSD level for the money of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OneLevel {
    pub(crate) levels: LevelBytes,
    /// What each VM has of it. Unless it is [divided otherwise](OneLevel::divided_as), what its shares of both levels cost; where
    /// no VM has any, all have the same.
    pub(crate) shares: Vec<Quota>,
    /// It is divided otherwise: as suits it best, by curves of it.
    pub(crate) by_curves: bool,
}

impl OneLevel {
    /// The SSD that is to be had for what a plan's levels cost (of drives: the plan's, and as many more as the money of its DRAM buys), in whole granules of so many blocks, or in blocks where no VM
    /// would have a granule; none where that is less than one. `shares_blocks` is what each VM has of them, by
    /// [`Level::index`].
    pub(crate) fn for_money_of(
        levels: LevelBytes,
        shares_blocks: &[[u64; 2]],
        prices: &Prices,
        (block_bytes, granule_blocks): (u64, u64),
    ) -> Option<OneLevel> {
        let bytes = |blocks: u64| blocks.saturating_mul(block_bytes);
        let LevelBytes { dram_bytes, ssd_bytes, .. } = levels;
        let for_dram = dram_bytes as f64 * (prices.dram_usd_per_gib / prices.ssd_usd_per_gib);
        // The money of a part of a drive buys none.
        let for_dram = prices
            .drive
            .map_or(for_dram, |drive| (for_dram / drive.bytes as f64).floor() * drive.bytes as f64);
        // The SSD of the plan stays as it is, to the last block.
        let blocks = (ssd_bytes.saturating_add(for_dram as u64) / block_bytes).min(MAX_LEVEL_BLOCKS);
        // Of a drive that several share, each pays for its part.
        let by_part = Prices { drive: None, ..*prices };
        let usd_of = |share: [u64; 2]| {
            let [dram_bytes, ssd_bytes] = share.map(bytes);
            by_part.cost_usd(LevelBytes { dram_bytes, ssd_bytes, ..LevelBytes::default() })
        };
        let mut usd: Vec<f64> = shares_blocks.iter().map(|&share| usd_of(share)).collect();
        if usd.iter().all(|&usd| usd <= 0.0) {
            usd.fill(1.0);
        }
        let all_usd: f64 = usd.iter().sum();
        // A share of one VM alone is all of it, to the last block.
        let share = |usd: &f64| ((blocks as f64 * (usd / all_usd)) as u64).min(blocks);
        let shares = in_granules(usd.iter().map(share).collect(), granule_blocks);
        let given: u64 = shares.iter().sum();
        let quota = |&blocks: &u64| u32::try_from(blocks).ok().map(|blocks| Quota::new(0, blocks));
        let shares = shares.iter().map(quota).collect::<Option<Vec<_>>>()?;
        (given > 0).then(|| OneLevel {
            levels: LevelBytes { ssd_bytes: bytes(given), ..LevelBytes::default() },
            shares,
            by_curves: false,
        })
    }

    /// The same divided in `shares_blocks`, if these are of as much.
    pub(crate) fn divided_as(self, shares_blocks: Option<&[u64]>) -> OneLevel {
        let all: u64 = self.shares.iter().map(|share| u64::from(share.ssd_blocks)).sum();
        let fits = |shares: &&[u64]| shares.len() == self.shares.len() && shares.iter().sum::<u64>() <= all;
        let quota = |&blocks: &u64| u32::try_from(blocks).ok().map(|blocks| Quota::new(0, blocks));
        match shares_blocks.filter(fits).and_then(|shares| shares.iter().map(quota).collect()) {
            Some(shares) => OneLevel { shares, by_curves: true, ..self },
            None => self,
        }
    }
}

/// Shares rounded down to whole granules, as a daemon takes them; what that leaves goes, granule by granule, to those that
/// lost most.
fn in_granules(shares: Vec<u64>, granule: u64) -> Vec<u64> {
    let mut whole: Vec<u64> = shares.iter().map(|share| share / granule * granule).collect();
    let mut left = (shares.iter().sum::<u64>() - whole.iter().sum::<u64>()) / granule;
    let mut by_loss: Vec<usize> = (0..shares.len()).collect();
    by_loss.sort_by_key(|&vm| std::cmp::Reverse(shares[vm] % granule));
    for vm in by_loss {
        if left > 0 && !shares[vm].is_multiple_of(granule) {
            whole[vm] += granule;
            left -= 1;
        }
    }
    if whole.iter().all(|&share| share == 0) { shares } else { whole }
}

/// What the level led to with these settings, beside the plan as it was `taken`.
pub(crate) fn report(
    load: &Load,
    host: &Host,
    (settings, level): (&Settings, OneLevel),
    replayed: &Report,
    taken: Option<&ReplayedReport>,
) -> OneLevelReport {
    let OneLevel { levels, by_curves, .. } = level;
    let label = label_of(settings);
    let shares_blocks: Vec<u64> = level.shares.iter().map(|share| share.ssd_blocks.into()).collect();
    let of_both: Vec<[u64; 2]> = shares_blocks.iter().map(|&blocks| [0, blocks]).collect();
    let own = ReplayFigures::of(load, host, levels, replayed);
    let (is_faster, writes_far_less) = taken.map_or((false, false), |taken| {
        let times = own.mean_latency_us.zip(taken.mean_latency_us);
        let [own, taken] = [&own.wear, &taken.wear].map(|wear| wear.written_bytes as f64);
        (times.is_some_and(|(own, taken)| own < (1.0 - FASTER) * taken), own < FAR_FEWER * taken)
    });
    let verdict = match (is_faster, writes_far_less) {
        (true, true) => Some("is faster and spares the SSD"),
        (true, false) => Some("is faster"),
        (false, true) => Some("spares the SSD"),
        (false, false) => None,
    };
    let sentence = taken.zip(verdict).map(|(taken, verdict)| {
        let [own_us, taken_us] = [own.mean_latency_us, taken.mean_latency_us].map(|us| us.unwrap_or(0.0));
        let [own_bytes, taken_bytes] = [&own.wear, &taken.wear].map(|wear| show_size(wear.written_bytes));
        let each = match by_curves {
            _ if load.vms.len() < 2 => "",
            true => ", divided as suits it best,",
            false => ", where each VM has what its shares cost,",
        };
        format!(
            "For the same money, one SSD level of {} with {}{each} {verdict}: {own_us:.1} us a request instead of \
             {taken_us:.1}, and {own_bytes} written to the SSD instead of {taken_bytes}.",
            show_size(levels.of(Level::Ssd)),
            label,
        )
    });
    OneLevelReport {
        label,
        levels,
        shares_blocks,
        by_curves,
        cost_usd: Prices::of(host).cost_usd(levels),
        read_hit_ratio: own.read_hit_ratio,
        mean_latency_us: own.mean_latency_us,
        wear: own.wear,
        utilisation: own.utilisation,
        host_memory: HostMemory::of(settings, load.block_bytes, &of_both),
        is_faster,
        writes_far_less,
        sentence,
        command: None,
    }
}
