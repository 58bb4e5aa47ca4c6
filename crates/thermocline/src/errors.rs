//! Errors in the words of a user.

use std::error::Error;

use thermocline_lab::LabError;
use thermocline_trace::TraceError;

use crate::note;

/// Return an error with all its causes, and the option that helps if there is one; `spell` makes of
/// its name what the reader would write.
pub(crate) fn explained(error: &anyhow::Error, spell: impl Fn(&str) -> String) -> String {
    let remedy = |one: &'_ (dyn Error + 'static)| match one.downcast_ref::<LabError>() {
        Some(error) => error.remedy(&spell),
        None => one.downcast_ref::<TraceError>()?.remedy(&spell),
    };
    let note = |one: &'_ (dyn Error + 'static)| {
        one.downcast_ref().and_then(note::remedy).map(str::to_owned)
    };
    match error.chain().find_map(|one| remedy(one).or_else(|| note(one))) {
        Some(remedy) => format!("{error:#}; {remedy}"),
        None => format!("{error:#}"),
    }
}
