//! The crate from outside: what is made of profiles, profiles fitted to traces, and the profiles that come with lode.

mod fit;
mod generator;
mod profiles;
