package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"unicode"

	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
)

const maxStoreMessage = 200

// failure turns an error of the SDK into one of the port. The SDK's text does not get through: stores repeat keys and signatures in theirs.
func (s *Store) failure(ctx context.Context, verb, key string, err error) error {
	what := s.what(verb, key)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if local := (*localError)(nil); errors.As(err, &local) {
		return fmt.Errorf("%s: read what is to be stored: %w", what, local.error)
	}
	if detail, untrusted := distrust(err); untrusted {
		return store.Failed(what, store.ErrTrust, detail)
	}
	status, code, message := answer(err)
	if status == 0 {
		return store.Failed(what, store.ErrUnavailable, s.redact(network(err)))
	}
	advice, sentinel := meaning(verb, status, code)
	detail := fmt.Sprintf("status %d", status)
	if code != "" {
		detail += " " + code
	}
	if message != "" {
		detail += ": " + s.redact(message)
	}
	if advice != "" {
		detail += " (" + advice + ")"
	}
	if s.config.CredentialsFrom != "" && (errors.Is(sentinel, store.ErrUnauthorized) || errors.Is(sentinel, store.ErrForbidden)) {
		detail += ". The credentials are those of " + s.config.CredentialsFrom
	}
	return store.Failed(what, sentinel, detail)
}

// unexplained tells whether the answer was a refusal without a body, as to HEAD, that a body would explain: it may be a redirection to another region.
func unexplained(err error) bool {
	status, _, _ := answer(err)
	return status >= http.StatusMultipleChoices && status < http.StatusInternalServerError && status != http.StatusTooManyRequests
}

// absent tells whether the answer means that the object is not there. A 404 of another code does not: some stores give one for an unknown access key, and an
// ingress gives one, without any code, for a host that it does not know.
func absent(err error) bool {
	status, code, _ := answer(err)
	return status == http.StatusNotFound && saysAbsent(code)
}

func saysAbsent(code string) bool { return code == "NoSuchKey" || code == "NoSuchVersion" }

// notS3 is the advice on an answer without an error code of S3.
const notS3 = "the answer is none of an S3 store: check scheme, host and port of the endpoint, and what is in between"

// codeless tells that a body held no code of S3: the SDK makes one of the status then.
func codeless(status int, code string) bool {
	return code == "" || code == strings.ReplaceAll(http.StatusText(status), " ", "")
}

// localError is a failure to read what is to be stored, which is not the store's.
type localError struct{ error }

// answer reads status, S3 error code and message of a response; status 0 means that there was none.
func answer(err error) (status int, code, message string) {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		code, message = api.ErrorCode(), api.ErrorMessage()
	}
	return status, code, message
}

// meaning maps an answer to a sentinel and, where the answer alone does not help, says what to do.
func meaning(verb string, status int, code string) (advice string, sentinel error) { //nolint:revive // both are parts of one message; neither is a failure of this function
	switch code {
	case "NoSuchBucket":
		return "", store.ErrBucketNotFound
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AuthFailure", "XAdminUserNotFound":
		return "", store.ErrUnauthorized
	case "RequestTimeTooSkewed", "RequestExpired":
		return "the clocks of this machine and of the store differ", store.ErrUnauthorized
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException":
		return "check region and endpoint", store.ErrRefused
	case "InvalidObjectState":
		return "the object is archived: bring it back in the store first, in a storage class that can be read at once", store.ErrRefused
	case "QuotaExceeded", "XMinioAdminBucketQuotaExceeded":
		return "the quota of the bucket or of its user is used up", store.ErrRefused
	case "SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "OperationAborted":
		return "", store.ErrUnavailable
	}
	return byStatus(verb, status, code)
}

func byStatus(verb string, status int, code string) (advice string, sentinel error) { //nolint:revive // as above
	switch {
	case status < http.StatusBadRequest:
		return "check region and endpoint", store.ErrRefused
	case status == http.StatusUnauthorized:
		return "", store.ErrUnauthorized
	case status == http.StatusForbidden && verb == http.MethodDelete:
		return "the credentials lack s3:DeleteObject, or the bucket's retention keeps the object", store.ErrForbidden
	case status == http.StatusForbidden && verb == http.MethodPut:
		return "the credentials lack s3:PutObject", store.ErrForbidden
	case status == http.StatusForbidden:
		return "the credentials lack s3:GetObject; or the object does not exist and they lack s3:ListBucket, without which S3 does not admit that", store.ErrForbidden
	case status == http.StatusNotFound && saysAbsent(code):
		return "", store.ErrNotFound
	case status == http.StatusPreconditionFailed, status == http.StatusRequestedRangeNotSatisfiable:
		return "", store.ErrChanged
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500 && status != http.StatusNotImplemented:
		return "", store.ErrUnavailable
	case codeless(status, code):
		return notS3, store.ErrRefused
	}
	return "", store.ErrRefused
}

// distrust names what is wrong with the store's certificate, if that is what failed.
func distrust(err error) (string, bool) {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return "x509: it is signed by an authority that is not among the system's roots: the store must be publicly trusted, be reached over plain http inside the cluster, or its CA be part of the images", true
	case errors.As(err, &host):
		return host.Error(), true
	case errors.As(err, &invalid):
		return invalid.Error(), true
	case errors.As(err, &verification):
		return verification.Err.Error(), true
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the endpoint answers plain http: write http:// if that is meant", true
	}
	return "", false
}

// network is the text of an error without an answer, such as a refused connection.
func network(err error) string {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Error()
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// redact cuts a store's text to a line of bounded length without the credentials.
func (s *Store) redact(text string) string {
	for _, secret := range []string{s.config.SecretAccessKey, s.config.AccessKeyID} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if cut := []rune(text); len(cut) > maxStoreMessage {
		text = string(cut[:maxStoreMessage]) + "…"
	}
	return text
}
