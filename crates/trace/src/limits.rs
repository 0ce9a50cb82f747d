//! Every limit on what a trace may ask of this program, in one place.

/// Longest line of a text trace.
pub const MAX_LINE_BYTES: usize = 64 * 1024;
/// Most volumes in one trace.
pub const MAX_VOLUMES: usize = 1 << 16;
/// Longest volume name, in bytes of UTF-8.
pub const MAX_VOLUME_NAME_BYTES: usize = 512;
/// Most requests in one batch, and the usual size of one.
pub const BATCH_REQUESTS: usize = 4096;
/// How much of a (decompressed) trace is looked at to find its format.
pub const HEAD_BYTES: usize = 64 * 1024;
/// Smallest unit of block numbers, see [`crate::ReadOptions::unit_bytes`].
pub const MIN_UNIT_BYTES: u64 = 1;
/// Largest unit of block numbers: 1 GiB.
pub const MAX_UNIT_BYTES: u64 = 1 << 30;
/// Longest text before the records of an HP SRT file.
pub const MAX_SRT_HEADER_BYTES: usize = HEAD_BYTES;
/// Most bytes of a Parquet trace that is not an uncompressed file, and so has to be kept in memory.
pub const MAX_PARQUET_STREAM_BYTES: usize = 1 << 30;
/// Most compressions inside each other.
pub const MAX_COMPRESSION_LAYERS: usize = 3;
/// Memory an xz stream may ask for; `xz -9` asks for 65 MiB.
pub const MAX_XZ_MEMORY_BYTES: u64 = 256 << 20;
/// Base-2 logarithm of the largest zstd window accepted; `zstd --ultra -22` uses 27.
pub const MAX_ZSTD_WINDOW_LOG: u32 = 27;
/// Positions kept for each reason of skipping; all are counted.
pub const MAX_SKIP_POSITIONS: usize = 8;
/// Most VMs in one merge.
pub const MAX_VMS: usize = 1 << 16;
/// Volumes that one VM can tell apart in its block numbers, see [`crate::vm_block`].
pub const MAX_VM_VOLUMES: u32 = 1 << 12;
/// Blocks of one volume inside a VM's block numbers, see [`crate::vm_block`].
pub const MAX_VM_BLOCKS: u64 = 1 << 52;
/// Runs of 64 neighbouring blocks that [`crate::info`] can tell apart, about 20 bytes each.
pub const MAX_FOOTPRINT_RUNS: usize = 1 << 26;
/// Times at either end of a trace that [`crate::info`] can take for slips.
pub const MAX_STRAY_TIMES: usize = 8;
/// Different request sizes that [`crate::info`] can tell apart.
pub const MAX_DISTINCT_SIZES: usize = 1 << 20;
/// How many of the commonest request sizes [`crate::info`] lists.
pub const TOP_SIZES: usize = 8;
/// Least memory that sorting takes, see [`crate::Sorter`].
pub const MIN_SORT_MEMORY_BYTES: u64 = 1 << 20;
/// Most sorted runs that are merged at once, about a quarter of a MiB each.
pub const MAX_SORT_FAN_IN: usize = 1024;
/// Longest file name that is made from a volume's name, in bytes and without its ending.
pub const MAX_FILE_NAME_BYTES: usize = 200;
