//! Policies that a caller brings: named like registered ones, made by the caller.

use std::sync::{Mutex, PoisonError};

use thermocline_core::registry::{self, Depth, Entry};

use crate::LabError;

/// All that were ever brought; what has a name is kept, as the registry is.
static BROUGHT: Mutex<Vec<&'static Entry>> = Mutex::new(vec![]);

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
