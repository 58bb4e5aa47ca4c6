//! Arguments of `explore`.

use std::path::PathBuf;

use clap::Args;

use super::Reading;
use crate::bytes::Bytes;

#[derive(Args, Debug)]
pub(crate) struct ExploreOptions {
    /// The trace to open first; the page can open others
    #[arg(value_name = "TRACE")]
    pub(crate) trace: Option<PathBuf>,
    /// The port of the page on 127.0.0.1; 0 is any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// Maximum size of a file that is dropped on the page
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) drop_limit: Bytes,
    #[command(flatten)]
    pub(crate) reading: Reading,
}
