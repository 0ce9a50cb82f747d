//! `lode serve` as its users see it: real processes, real sockets, real clients.

mod acknowledged;
mod allocation;
mod bytes;
mod checking;
mod client;
mod common;
mod dividing;
mod draining;
mod end_to_end;
mod equal_hosts;
mod equality;
mod fleet;
mod guards;
mod hostile;
mod killing;
mod known;
mod logging;
mod metrics;
mod postgres;
mod reconnecting;
mod records;
mod runs;
mod steering;
mod tools;
mod two_ssds;
mod watching;
