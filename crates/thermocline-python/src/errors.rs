//! From our errors to Python's: one class per family, with the whole chain of reasons as text.

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

/// The Python exception of an error.
pub(crate) fn python(error: impl Into<anyhow::Error>) -> PyErr {
    let error = error.into();
    let text = format!("{error:#}");
    let is = |family: fn(&(dyn std::error::Error + 'static)) -> bool| error.chain().any(family);
    if is(|one| matches!(one.downcast_ref(), Some(LabError::Violation { .. }))) {
        classes::LedgerError::new_err(text)
    } else if is(|one| one.is::<TraceError>()) {
        classes::TraceError::new_err(text)
    } else if is(|one| one.is::<DeviceError>() || one.is::<SsdError>() || one.is::<QueueingError>())
    {
        classes::DeviceError::new_err(text)
    } else if is(|one| matches!(one.downcast_ref(), Some(LabError::File { .. }))) {
        classes::FileError::new_err(text)
    } else if is(|one| {
        matches!(one.downcast_ref(), Some(LabError::Threads { .. } | LabError::Stopped))
    }) {
        classes::ThermoclineError::new_err(text)
    } else {
        classes::ConfigurationError::new_err(text)
    }
}
