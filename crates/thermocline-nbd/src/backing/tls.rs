//! TLS to a server: its certificate is checked, and ours is shown if there is one.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection};

use crate::server::tls::{TlsError, certificates, pem_error, roots};
use crate::uri::TlsFiles;

/// Begins the client's side. The files are read each time, so that certificates can be renewed while the
/// cache runs.
///
/// # Errors
/// If files cannot be read or contradict each other, or no certificate has the name.
pub(super) fn begin(files: &TlsFiles) -> Result<ClientConnection, TlsError> {
    let file = |name: &str| files.certificates.join(name);
    let (certificate, key) = (file("client-cert.pem"), file("client-key.pem"));
    let unusable = |source| TlsError::Certificate { path: certificate.clone(), source };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots(&file("ca-cert.pem"))?);
    let configuration = if certificate.exists() {
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| pem_error(&key, &error))?;
        builder.with_client_auth_cert(certificates(&certificate)?, key).map_err(unusable)?
    } else {
        builder.with_no_client_auth()
    };
    let name = ServerName::try_from(files.server_name.clone())
        .map_err(|_| TlsError::Name { name: files.server_name.clone() })?;
    ClientConnection::new(Arc::new(configuration), name).map_err(TlsError::Begin)
}
