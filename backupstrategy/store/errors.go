package store

import (
	"context"
	"errors"
	"fmt"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// Sentinels for errors.Is. Their texts are part of the messages.
var (
	ErrNotFound       = errors.New("the object does not exist")
	ErrBucketNotFound = errors.New("the bucket does not exist")
	ErrForbidden      = errors.New("access is denied")
	ErrUnauthorized   = errors.New("the credentials are not accepted")
	ErrUnavailable    = errors.New("the store does not answer as it should")
	ErrTrust          = errors.New("the store's TLS certificate is not trusted")
	ErrChanged        = errors.New("the object is no longer the one that was looked at")
	ErrRefused        = errors.New("the store does not accept the request")
)

// kinds gives each sentinel its class and reason. Only what an outage explains is worth another try.
var kinds = map[error]struct {
	class  fault.Class
	reason string
}{
	ErrNotFound:       {fault.Terminal, backupsv1alpha1.ReasonObjectNotFound},
	ErrBucketNotFound: {fault.Terminal, backupsv1alpha1.ReasonBucketNotFound},
	ErrForbidden:      {fault.Terminal, backupsv1alpha1.ReasonObjectForbidden},
	ErrUnauthorized:   {fault.Terminal, backupsv1alpha1.ReasonCredentialsRejected},
	ErrUnavailable:    {fault.Transient, backupsv1alpha1.ReasonStoreUnavailable},
	ErrTrust:          {fault.Terminal, backupsv1alpha1.ReasonStoreUntrusted},
	ErrChanged:        {fault.Terminal, backupsv1alpha1.ReasonObjectChanged},
	ErrRefused:        {fault.Terminal, backupsv1alpha1.ReasonStoreRefused},
}

// Failed makes an adapter's error from a sentinel: "what: sentinel: detail". The detail must hold no credentials.
func Failed(what string, sentinel error, detail string) error {
	kind := kinds[sentinel]
	err := fmt.Errorf("%s: %w", what, sentinel)
	if detail != "" {
		err = fmt.Errorf("%s: %w: %s", what, sentinel, detail)
	}
	return &fault.Error{Class: kind.class, Reason: kind.reason, Err: err}
}

// CheckListBucket tells whether the credentials can see that a key is absent. S3 answers 403 instead of 404 to credentials without s3:ListBucket, and
// the operator's snapshot Job, which looks before it writes, fails on them. The key should be one that does not exist; an object there is no error.
func CheckListBucket(ctx context.Context, r Reader, absent string) error {
	_, err := r.Head(ctx, absent)
	switch {
	case err == nil, errors.Is(err, ErrNotFound):
		return nil
	case errors.Is(err, ErrForbidden):
		return fault.Terminalf(backupsv1alpha1.ReasonListBucketForbidden,
			"the credentials cannot tell whether %q exists, so no snapshot could be stored with them: grant s3:ListBucket on the bucket: %w", absent, err)
	}
	return err
}
