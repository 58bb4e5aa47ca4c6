//! Policies that another program brings, found by name beside the registered ones.

use std::sync::Arc;

use thermocline_core::policy::Maker;
use thermocline_core::registry::Entry;
use thermocline_lab::{Configuration, LabError};

/// A policy that is not registered, and what makes it.
#[derive(Clone, Debug)]
pub struct Brought {
    /// Its entry, as by [`thermocline_lab::bring`].
    pub entry: &'static Entry,
    /// What makes it.
    pub maker: Arc<dyn Maker>,
}

/// The policy of that name, brought or registered.
pub(crate) fn find(name: &str, brought: &[Brought]) -> Result<&'static Entry, LabError> {
    match brought.iter().find(|one| one.entry.name == name) {
        Some(one) => Ok(one.entry),
        None => thermocline_lab::find_policy(name),
    }
}

/// Gives a configuration what makes its policy, if that is brought.
pub(crate) fn equip(configuration: &mut Configuration, brought: &[Brought]) {
    if let Some(one) = brought.iter().find(|one| one.entry.name == configuration.policy.name) {
        let values = configuration.values.clone();
        configuration.values = values.with_maker(Arc::clone(&one.maker));
    }
}
