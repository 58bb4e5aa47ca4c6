//! Policies of two to eight tiers of caches over a disk.

pub mod chain;
pub mod demote;
mod halves;
pub mod hfa;
mod hierarchy;
pub mod hint_k;
mod hosted;
mod khv;
pub mod lru_n_inclusive;
pub mod mq_n;
mod one_order;
mod probabilities;
pub mod promote;
pub mod split;
mod stacks;
pub mod ulc;

use crate::entry::PolicyEntry;
pub(crate) use stacks::Stack;

/// All of them, in the order in which the registry lists them.
pub const POLICIES: &[PolicyEntry] = &[
    lru_n_inclusive::LRU_N_INCLUSIVE,
    demote::DEMOTE,
    chain::CHAIN,
    promote::PROMOTE,
    hint_k::HINT_K,
    mq_n::MQ_N,
    ulc::ULC,
    hfa::D_HFA,
    hfa::P_HFA,
    hfa::H_HFA,
    hfa::ORACLE_HFA,
];
