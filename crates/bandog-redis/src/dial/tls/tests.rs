use super::*;

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
        let error = refused("rediss://h:6379/0", &rustls::Error::AlertReceived(alert));
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().starts_with("rediss://h:6379/0: the server "), "{error}");
    }
}
