//! One file per command; each returns what is to be printed.

pub(crate) mod advise;
pub(crate) mod artifact;
pub(crate) mod buffer;
pub(crate) mod buffers;
pub(crate) mod cache;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod corpus;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod drives;
pub(crate) mod explore;
pub(crate) mod hot;
pub(crate) mod identifiers;
pub(crate) mod kv;
mod listing;
pub(crate) mod mrc;
pub(crate) mod plan;
pub(crate) mod policies;
pub(crate) mod reproduce;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod sweep;
pub(crate) mod top;
pub(crate) mod trace;
