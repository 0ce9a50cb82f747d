//! Distances, stacks, curves and shares against what is plain and slow, and against the worked examples.

mod behind;
mod distances;
mod index;
mod joint;
mod lists;
mod models;
mod pieces;
mod sampling;
mod shards;
mod sizing;
mod stacks;
mod talus;
mod timeline;
mod traces;
