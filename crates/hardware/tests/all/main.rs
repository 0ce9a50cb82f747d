//! The papers' worked examples, profiles, properties, and the disk against a slow and obvious one.

mod arrays;
mod catalogue;
mod disk;
mod disk_oracle;
mod drives;
mod models;
mod vectors;
