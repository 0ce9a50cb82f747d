//! The experiments: that their descriptions hold together, what a short run of all gives beside the documentation, and
//! what is made of the user's traces.

mod at_hand;
mod auto;
mod catalogue;
mod documentation;
mod property;
mod traces;
