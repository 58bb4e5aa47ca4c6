//! Recordings as they are written.
