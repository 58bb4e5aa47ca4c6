//! Traces that lie elsewhere: `https://`, `http://`, `s3://`, `gs://` and `az://`.
//!
//! A thread of its own reads the object from front to back and hands over its bytes through a bounded
//! queue. When the connection breaks, it goes on where it stopped, if the server says which version of
//! the object it serves (an `ETag`) and serves ranges; an object that changed meanwhile is an error. A trace
//! is never cut short: its length is compared with the one that the server stated.
//!
//! Credentials come from the environment, as each store's own programs read them (`AWS_*`, `GOOGLE_*`,
//! `AZURE_*`), and appear in no message.

use std::io::{self, Read};
use std::path::Path;

#[cfg(feature = "remote")]
mod object;

/// Schemes of addresses that can be read.
const SCHEMES: [&str; 8] = ["https", "http", "s3", "s3a", "gs", "az", "azure", "abfss"];

/// Return the address that a path is, if it is one of an object that lies elsewhere.
pub fn address(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    SCHEMES.contains(&scheme).then_some(text)
}

/// Opens an object; returns its bytes, and how many these are.
///
/// # Errors
/// If the address is invalid, the store cannot be reached or refuses, there is no such object, or
/// the program was built without the feature `remote`.
#[cfg(feature = "remote")]
pub fn open(address: &str) -> io::Result<(Box<dyn Read + Send>, u64)> {
    let object = object::Remote::open(address)?;
    let size_bytes = object.size_bytes();
    Ok((Box::new(object), size_bytes))
}

/// Says that this program cannot read it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "remote"))]
pub fn open(_address: &str) -> io::Result<(Box<dyn Read + Send>, u64)> {
    let reason = "this program was built without the feature `remote`: download the trace first";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

#[cfg(test)]
mod path_tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_that_is_known() {
        for known in ["https://host/t.csv", "s3://bucket/t.csv.zst", "gs://b/t", "az://c/t"] {
            assert_eq!(address(Path::new(known)), Some(known));
        }
        for local in ["t.csv", "/a//b", "C:\\t.csv", "ftp://host/t"] {
            assert_eq!(address(Path::new(local)), None, "{local}");
        }
    }
}
