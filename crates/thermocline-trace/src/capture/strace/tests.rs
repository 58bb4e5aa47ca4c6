//! Excerpts.
