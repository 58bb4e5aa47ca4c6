//! Conversion of our errors to Python's: one class per family, with the whole chain of reasons as
//! text.

use std::error::Error;

use pyo3::PyErr;
use thermocline_device::DeviceError;
use thermocline_device::queueing::QueueingError;
use thermocline_device::ssd::SsdError;
use thermocline_lab::LabError;
use thermocline_trace::TraceError;

/// The classes, which are Python's.
mod classes {
    use pyo3::import_exception;

    import_exception!(thermocline.errors, ConfigurationError);
    import_exception!(thermocline.errors, DeviceError);
    import_exception!(thermocline.errors, FileError);
    import_exception!(thermocline.errors, LedgerError);
    import_exception!(thermocline.errors, ThermoclineError);
    import_exception!(thermocline.errors, TraceError);
}

/// Return a mistake in the arguments.
pub(crate) fn configuration(message: String) -> PyErr {
    classes::ConfigurationError::new_err(message)
}

/// Return the Python exception of an error.
pub(crate) fn python(error: impl Into<anyhow::Error>) -> PyErr {
    let error = error.into();
    let spell = |argument: &str| format!("`{argument}`");
    let remedy = |one: &(dyn Error + 'static)| match one.downcast_ref::<LabError>() {
        Some(error) => error.remedy(spell),
        None => one.downcast_ref::<TraceError>()?.remedy(spell),
    };
    let text = match error.chain().find_map(remedy) {
        Some(remedy) => format!("{error:#}; {remedy}"),
        None => format!("{error:#}"),
    };
    error.chain().find_map(|one| family(one, &text)).unwrap_or_else(|| {
        // Texts that are not understood, and parameters that do not go together.
        configuration(text)
    })
}

/// Return the exception of an error's family, if it is one of ours that has one.
#[expect(clippy::wildcard_enum_match_arm, reason = "most are mistakes in a configuration")]
fn family(error: &(dyn Error + 'static), text: &str) -> Option<PyErr> {
    let text = text.to_owned();
    let is_of_device =
        error.is::<DeviceError>() || error.is::<SsdError>() || error.is::<QueueingError>();
    if error.is::<TraceError>() {
        return Some(classes::TraceError::new_err(text));
    }
    if is_of_device {
        return Some(classes::DeviceError::new_err(text));
    }
    // The reason of another one of ours comes in a box.
    let boxed = || error.downcast_ref::<Box<LabError>>().map(AsRef::as_ref);
    match error.downcast_ref::<LabError>().or_else(boxed)? {
        LabError::Trace(_) | LabError::BadTrace { .. } => Some(classes::TraceError::new_err(text)),
        LabError::Device(_) | LabError::Ssd(_) | LabError::Queueing(_) => {
            Some(classes::DeviceError::new_err(text))
        }
        LabError::Violation { .. } => Some(classes::LedgerError::new_err(text)),
        LabError::File { .. } => Some(classes::FileError::new_err(text)),
        LabError::Threads { .. } | LabError::Stopped => {
            Some(classes::ThermoclineError::new_err(text))
        }
        _ => None,
    }
}
