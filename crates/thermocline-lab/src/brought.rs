//! Policies that a caller brings: named like registered ones, made by the caller.

use std::sync::{Arc, Mutex, PoisonError};

use thermocline_core::policy::Maker;
use thermocline_core::registry::{self, Depth, Entry};

use crate::{Configuration, LabError, find_policy};

/// All that were ever brought; what has a name is kept, as the registry is.
static BROUGHT: Mutex<Vec<&'static Entry>> = Mutex::new(vec![]);

/// A policy that is not registered, and what makes it.
#[derive(Clone, Debug)]
pub struct Brought {
    /// Its entry, as by [`bring`].
    pub entry: &'static Entry,
    /// What makes it.
    pub maker: Arc<dyn Maker>,
}

impl Brought {
    /// The policy of that name, among those brought or among the registered ones.
    ///
    /// # Errors
    /// [`LabError::UnknownPolicy`], which names the registered ones.
    pub fn find(name: &str, brought: &[Self]) -> Result<&'static Entry, LabError> {
        match brought.iter().find(|one| one.entry.name == name) {
            Some(one) => Ok(one.entry),
            None => find_policy(name),
        }
    }

    /// Give a configuration what makes its policy, if that is among those brought.
    pub fn equip(configuration: &mut Configuration, brought: &[Self]) {
        if let Some(one) = brought.iter().find(|one| one.entry.name == configuration.policy.name) {
            let values = configuration.values.clone();
            configuration.values = values.with_maker(Arc::clone(&one.maker));
        }
    }
}

/// The entry of a policy that is not registered, for [`Configuration::policy`]; what makes the policy
/// is given with the configuration's values. The same name and depth have the same entry.
///
/// [`Configuration::policy`]: crate::Configuration::policy
///
/// # Errors
/// [`LabError::NameTaken`] if a registered policy has the name.
pub fn bring(name: &str, depth: Depth) -> Result<&'static Entry, LabError> {
    if registry::find(name).is_ok() {
        return Err(LabError::NameTaken { name: name.into() });
    }
    let mut brought = BROUGHT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = brought.iter().find(|entry| entry.name == name && entry.depth == depth);
    if let Some(entry) = known {
        return Ok(entry);
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let entry: &'static Entry = Box::leak(Box::new(Entry::brought(name, depth)));
    brought.push(entry);
    Ok(entry)
}
