//! The papers' experiments, as data: what is run is in `papers/NAME/experiment.toml`.

pub mod hat;
