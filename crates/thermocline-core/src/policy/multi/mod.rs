//! Policies of two to eight tiers of caches over a disk.

pub mod demote;
pub mod hfa;
mod hierarchy;
pub mod hint_k;
mod khv;
pub mod lru_n_inclusive;
pub mod mq_n;
mod probabilities;
pub mod promote;
mod stacks;
pub mod ulc;
