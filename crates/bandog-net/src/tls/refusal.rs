//! The errors of a failed TLS handshake. The message says which side refused the other side, and what the user can do.

use std::io;

use bandog_core::{
    Error,
    ErrorKind::{self, Denied, Unavailable, Unsupported},
};
use rustls::{AlertDescription as Alert, CertificateError as Certificate};

use super::OptionNames;

/// The TLS error inside an I/O error of a TLS stream.
#[must_use]
pub fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The error of a failed TLS handshake. `store` is the server's address, for the message.
#[must_use]
pub fn refused(store: &str, names: &OptionNames, error: &rustls::Error) -> Error {
    let (kind, message) = meaning(error, names);
    Error::new(kind, format!("{store}: {message}")).caused_by(error.clone())
}

/// The kind of the error, and its message.
fn meaning(error: &rustls::Error, names: &OptionNames) -> (ErrorKind, String) {
    match error {
        rustls::Error::InvalidCertificate(error) => (Denied, our_refusal(error, names)),
        rustls::Error::AlertReceived(alert) => server_alert(*alert, names),
        rustls::Error::InvalidMessage(_) => (
            Unsupported,
            format!("the server does not speak TLS; if this is the right port, write {} in the URL", names.without_tls),
        ),
        rustls::Error::PeerIncompatible(_) => {
            (Unsupported, "the server and this client have no TLS version or cipher in common".into())
        }
        _ => (Unavailable, "the TLS handshake failed".into()),
    }
}

/// The message if this client refuses the server's certificate.
fn our_refusal(error: &Certificate, names: &OptionNames) -> String {
    let reason = match error {
        Certificate::UnknownIssuer => {
            return format!(
                "we refuse the server's certificate: no authority that we trust has signed it; if you trust its \
                 authority, add ?{}=PATH with the authority's file to the URL",
                names.ca
            );
        }
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            ": it was not issued for this host; in the URL, use a host for which the certificate was issued"
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            ": it has expired; have it renewed, or check this machine's clock"
        }
        Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
            ": it is not valid yet; check this machine's clock"
        }
        _ => "",
    };
    format!("we refuse the server's certificate{reason}")
}

/// The kind and the message of the error if the server has sent this alert. An alert that is not listed here might have
/// a temporary cause, so its kind is `Unavailable`. For example, a proxy sends such an alert while it cannot reach its
/// server.
fn server_alert(alert: Alert, names: &OptionNames) -> (ErrorKind, String) {
    let OptionNames { cert, key, .. } = names;
    match alert {
        Alert::CertificateRequired => {
            (Denied, format!("the server requires a client certificate; name it with ?{cert}=PATH&{key}=PATH"))
        }
        Alert::HandshakeFailure => (
            Denied,
            format!(
                "the server refuses the handshake; if it requires a client certificate, name it with \
                 ?{cert}=PATH&{key}=PATH"
            ),
        ),
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::CertificateUnknown
        | Alert::UnsupportedCertificate
        | Alert::DecryptError
        | Alert::AccessDenied => (
            Denied,
            format!(
                "the server refuses our certificate, or requires one; ?{cert}=PATH&{key}=PATH must name one that is valid \
                 and signed by an authority that the server trusts"
            ),
        ),
        Alert::UnrecognisedName => (Denied, "the server does not know the host of the URL".into()),
        Alert::ProtocolVersion => (Unsupported, "the server speaks neither TLS 1.2 nor 1.3".into()),
        _ => (Unavailable, "the server aborted the handshake".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: OptionNames = OptionNames { ca: "ca", cert: "cert", key: "key", without_tls: "redis://" };

    #[test]
    fn an_alert_with_a_temporary_cause_is_reported_as_unavailable() {
        for (alert, kind) in [
            (Alert::CertificateRequired, Denied),
            (Alert::UnknownCA, Denied),
            (Alert::HandshakeFailure, Denied),
            (Alert::ProtocolVersion, Unsupported),
            (Alert::InternalError, Unavailable),
            (Alert::UserCanceled, Unavailable),
        ] {
            let error = refused("rediss://h:6379/0", &NAMES, &rustls::Error::AlertReceived(alert));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().starts_with("rediss://h:6379/0: the server "), "{error}");
        }
    }
}
