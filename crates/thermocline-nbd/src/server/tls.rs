//! Certificates for TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Certificates that were read.
pub type ServerTls = Arc<ServerConfig>;

/// PEM files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The server's certificate, and those that lead to its root.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// Roots of the certificates that clients must show; none lets every client in.
    pub client_roots: Option<PathBuf>,
}

/// Reason why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("{}: {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Fault.
        reason: String,
    },
    /// No certificate can have such a name.
    #[error("`{name}` is neither a host's name nor an address")]
    Name {
        /// The name.
        name: String,
    },
    /// TLS cannot begin.
    #[error("TLS cannot begin: {0}")]
    Begin(rustls::Error),
    /// The certificate and the key do not go together, or are of an unknown kind.
    #[error("{}: the certificate or its key cannot be used", path.display())]
    Certificate {
        /// The certificate's file.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read, or they do not go together.
    pub fn load(&self) -> Result<ServerTls, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let unusable = |source| TlsError::Certificate { path: self.certificate.clone(), source };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match &self.client_roots {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| pem_error(path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| pem_error(&self.key, &error))?;
        let configuration =
            builder.with_single_cert(certificates(&self.certificate)?, key).map_err(unusable)?;
        Ok(Arc::new(configuration))
    }
}

/// Reads the certificates that others must lead to.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| pem_error(path, &error))?;
    }
    Ok(roots)
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<_, pem::Error>>)
        .map_err(|error| pem_error(path, &error))?;
    if found.is_empty() {
        return Err(pem_error(path, &"there is no certificate in it"));
    }
    Ok(found)
}

pub(crate) fn pem_error(path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::Pem { path: path.to_owned(), reason: reason.to_string() }
}
