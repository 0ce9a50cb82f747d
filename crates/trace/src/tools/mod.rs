//! Making traces out of traces: a part of one, its volumes one by one, its requests in order of time. The results are
//! requests and names of volumes; who calls writes them. It must not know formats.

mod filter;
mod head;
mod moment;
mod naming;
mod sort;
mod split;

pub use filter::{Filter, FilterFacts, FilterOptions, VolumePattern};
pub use head::Head;
pub use moment::{Moment, MomentError};
pub use sort::{SortBy, SortProgress, Sorted, Sorter};
pub use split::{file_names, write_each_volume};
