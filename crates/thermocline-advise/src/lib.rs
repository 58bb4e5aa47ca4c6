//! Advice for the caches that a machine has: what is set today, and the commands that set something
//! else.
