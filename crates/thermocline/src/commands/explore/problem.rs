//! Reason why a request is refused, as the page shows it.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use thermocline_lab::LabError;

use crate::arguments::flag_of;

/// A refusal: one sentence that says what, where, and what to do.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    sentence: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into() }
    }

    /// Create the error of an invalid question.
    pub(super) fn bad(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, sentence)
    }

    /// Create the error of a missing item.
    pub(super) fn missing(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, sentence)
    }
}

/// Return an error with its causes and its remedy, in one sentence.
pub(super) fn sentence(error: &anyhow::Error) -> String {
    crate::errors::explained(error, flag_of)
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        Self::bad(sentence(&error))
    }
}

impl From<LabError> for Problem {
    fn from(error: LabError) -> Self {
        anyhow::Error::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body {
            error: String,
        }
        (self.status, Json(Body { error: self.sentence })).into_response()
    }
}
