//! The client that reads an object.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::ClientOptions;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, Error, ObjectStore, ObjectStoreExt as _, RetryConfig};
use url::Url;

/// Chunks that wait to be read. A chunk is as long as the network makes it, up to some 100 KiB.
const CHUNKS_MAX: usize = 64;
/// Maximum number of times that a request is tried again, and a broken connection resumed.
const RETRIES_MAX: usize = 8;
/// Maximum time of all tries for one object.
const RETRY_TIME: Duration = Duration::from_mins(2);
/// Maximum time that a server may be silent.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// Advice if a store asks for credentials.
const CREDENTIALS: &str = "set the store's credentials in the environment (AWS_ACCESS_KEY_ID and \
     AWS_SECRET_ACCESS_KEY; GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_NAME and \
     AZURE_STORAGE_ACCOUNT_KEY), or AWS_SKIP_SIGNATURE=true for a public bucket of S3";

/// The bytes of an object that lies elsewhere, as they come.
pub(super) struct Remote {
    chunks: Receiver<io::Result<Chunk>>,
    /// Remainder of the chunk that came last.
    current: Chunk,
    /// The length that the server stated.
    size_bytes: u64,
    read_bytes: u64,
}

/// Bytes that came together.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    start: usize,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("size_bytes", &self.size_bytes)
            .field("read_bytes", &self.read_bytes)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// Opens an object.
    ///
    /// # Errors
    /// If the address is invalid, the store cannot be reached or refuses, or there is no such
    /// object.
    pub(super) fn open(address: &str) -> io::Result<Self> {
        let (store, place) = store_of(address, retries())?;
        Self::read_from(store, place)
    }

    fn read_from(store: Arc<dyn ObjectStore>, place: object_store::path::Path) -> io::Result<Self> {
        let (sizes, size) = sync_channel(1);
        let (sender, chunks) = sync_channel(CHUNKS_MAX);
        thread::Builder::new().name("remote trace".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(stream(&*store, &place, &sizes, &sender)),
                Err(error) => drop(sizes.send(Err(error))),
            }
        })?;
        let size_bytes =
            size.recv().map_err(|_| io::Error::other("the reading thread ended"))??;
        Ok(Self { chunks, current: Chunk::default(), size_bytes, read_bytes: 0 })
    }

    /// Return the length that the server stated, in bytes.
    pub(super) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

impl Read for Remote {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.current.start == self.current.bytes.len() {
            match self.chunks.recv() {
                Ok(chunk) => self.current = chunk?,
                Err(_) if self.read_bytes == self.size_bytes => return Ok(0),
                Err(_) => {
                    let message =
                        format!("the server sent {} of {} bytes", self.read_bytes, self.size_bytes);
                    return Err(io::Error::other(message));
                }
            }
        }
        let left = &self.current.bytes[self.current.start..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.current.start += count;
        self.read_bytes += count as u64;
        Ok(count)
    }
}

/// Send the length of an object, then its bytes, until nobody takes them.
async fn stream(
    store: &dyn ObjectStore,
    place: &object_store::path::Path,
    sizes: &SyncSender<io::Result<u64>>,
    sender: &SyncSender<io::Result<Chunk>>,
) {
    let found = match store.get(place).await {
        Ok(found) => found,
        Err(error) => return drop(sizes.send(Err(said(&error)))),
    };
    if sizes.send(Ok(found.meta.size)).is_err() {
        return;
    }
    let mut chunks = found.into_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = match chunk {
            Ok(bytes) => Ok(Chunk { bytes: bytes.into(), start: 0 }),
            Err(error) => Err(said(&error)),
        };
        let is_over = chunk.is_err();
        if sender.send(chunk).is_err() || is_over {
            return;
        }
    }
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            ..BackoffConfig::default()
        },
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_TIME,
    }
}

/// Return the store that an address belongs to, and the place in it.
fn store_of(
    address: &str,
    retries: RetryConfig,
) -> io::Result<(Arc<dyn ObjectStore>, object_store::path::Path)> {
    let bad = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let url = Url::parse(address).map_err(|error| bad(format!("not an address: {error}")))?;
    if url.query().is_some() || url.fragment().is_some() {
        let reason = "an address with `?` or `#` cannot be read in parts: download the trace first";
        return Err(bad(reason.into()));
    }
    // Several providers are linked at times, and then none is the default.
    let _already_chosen = rustls::crypto::ring::default_provider().install_default();
    let whole_path = object_store::path::Path::from_url_path(url.path());
    let place = whole_path.map_err(|error| bad(error.to_string()))?;
    if place.as_ref().is_empty() {
        return Err(bad("the address names no object".into()));
    }
    let options = ClientOptions::new().with_read_timeout(SILENCE_MAX).with_timeout_disabled();
    let failed = |error: Error| bad(error.to_string());
    let store: Arc<dyn ObjectStore> = match url.scheme() {
        "https" | "http" => {
            let origin = url.origin().ascii_serialization();
            let options = options.with_allow_http(true);
            let builder = HttpBuilder::new().with_url(origin).with_client_options(options);
            Arc::new(builder.with_retry(retries).build().map_err(failed)?)
        }
        "s3" | "s3a" => {
            let builder = AmazonS3Builder::from_env().with_url(address).with_retry(retries);
            Arc::new(builder.build().map_err(failed)?)
        }
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(address);
            Arc::new(builder.with_retry(retries).build().map_err(failed)?)
        }
        _ => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(address);
            Arc::new(builder.with_retry(retries).build().map_err(failed)?)
        }
    };
    Ok((store, place))
}

/// Say what is wrong, and what to do about it.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other errors are said as they are")]
fn said(error: &Error) -> io::Error {
    let (kind, text) = match error {
        Error::NotFound { .. } => (io::ErrorKind::NotFound, "no such object there".to_owned()),
        // Without credentials, S3's client asks the cloud's own machines for them.
        Error::Generic { .. } if chain(error).contains("169.254.169.254") => {
            (io::ErrorKind::PermissionDenied, CREDENTIALS.to_owned())
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            (io::ErrorKind::PermissionDenied, format!("the store refuses: {CREDENTIALS}"))
        }
        Error::Precondition { .. } => {
            (io::ErrorKind::Other, "the object changed while it was read: start again".to_owned())
        }
        other => (io::ErrorKind::Other, chain(other)),
    };
    io::Error::new(kind, text)
}

/// Return the causes of an error that say something new, the outermost first.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let says = next.to_string();
        if !text.contains(&says) {
            text += ": ";
            text += &says;
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests;
