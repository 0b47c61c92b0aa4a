// Package proof reads a Backup's object before a restore relies on it, and makes the copy that the restored cluster starts from. It is what stands between
// the reconciler of RestoreJobs and object store, scratch folder and etcdutl.
package proof

import (
	"context"
	"errors"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/s3"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// Prover does the work in a scratch folder, whose slots bound how many artifacts are unpacked at a time.
type Prover struct {
	Reader  client.Reader // uncached: Secrets are read by their names, one at a time
	Scratch *artifact.Scratch
	Tools   artifact.Tools
}

// Login is the user that the operator will log in as; the zero Login checks nothing.
type Login struct{ SecretName string }

// Prove fetches the object and checks every byte of it: size and sha256 against the record, etcd's own sha256, and each page and entry of the database. With
// auth on it also checks that the login's password is the one of that time. Room for the preparation is asked for here too, as a lack of it must show early.
func (p *Prover) Prove(ctx context.Context, namespace string, source record.Source, login Login) (record.Proof, error) {
	proven, _, err := p.Examine(ctx, namespace, source, login, nil)
	return proven, err
}

// Examine proves the object as Prove does, and tells all facts of it. Unless live is nil, they include the difference to that list of live keys.
func (p *Prover) Examine(ctx context.Context, namespace string, source record.Source, login Login, live iter.Seq2[[]byte, error]) (record.Proof, artifact.Facts, error) {
	file, w, err := p.fetch(ctx, namespace, source)
	if err != nil {
		return record.Proof{}, artifact.Facts{}, err
	}
	defer func() { _ = w.Close() }()
	if err := w.Need(artifact.PrepareNeed(file.Sums.Size)); err != nil {
		return record.Proof{}, artifact.Facts{}, err
	}
	facts, err := artifact.Inspect(ctx, file.Path, artifact.Options{DatabaseBytes: file.Sums.DatabaseSize(), Compare: live})
	if err != nil {
		return record.Proof{}, artifact.Facts{}, fmt.Errorf("%s: %w", source.Key, err)
	}
	if err := p.checkLogin(ctx, namespace, facts.Auth, login); err != nil {
		return record.Proof{}, artifact.Facts{}, err
	}
	return record.Proof{
		SizeBytes: file.Sums.Size, Checksum: file.Sums.Checksum(), DatabaseBytes: facts.DatabaseBytes, InUseBytes: facts.InUseBytes, Minor: facts.Minor(),
		Revision: facts.Revision, Revisions: facts.Revisions, Keys: facts.Keys.Keys, AuthEnabled: facts.Auth.Enabled,
		CorruptMember: corruptMember(facts.Alarms),
	}, facts, nil
}

func corruptMember(alarms []artifact.Alarm) string {
	for _, a := range alarms {
		if a.Type == artifact.AlarmCorrupt {
			return a.MemberID
		}
	}
	return ""
}

// Prepare makes the planned copy of a proven object and stores it. The object is fetched again: it must still be the one that was proven, by its sha256.
func (p *Prover) Prepare(ctx context.Context, namespace, owner string, source record.Source, proven record.Proof, plan record.Prepared) (record.Prepared, error) {
	source.SizeBytes, source.Checksum = proven.SizeBytes, proven.Checksum
	file, w, err := p.fetch(ctx, namespace, source)
	if err != nil {
		return plan, err
	}
	defer func() { _ = w.Close() }()
	facts := artifact.Facts{
		DatabaseBytes: proven.DatabaseBytes, InUseBytes: proven.InUseBytes, Revision: proven.Revision, Revisions: proven.Revisions,
	}
	prepared, err := artifact.Prepare(ctx, file, facts, artifact.PrepareOptions{Workspace: w, Tools: p.Tools, Bump: plan.Bump, Minor: proven.Minor})
	if err != nil {
		return plan, err
	}
	to, err := p.store(ctx, namespace, source)
	if err != nil {
		return plan, err
	}
	if err := artifact.Upload(ctx, to, plan.Key, owner, prepared); err != nil {
		return plan, err
	}
	plan.Revision, plan.SizeBytes, plan.Checksum, plan.Etcdutl = prepared.Revision, prepared.SizeBytes, prepared.Checksum, prepared.Etcdutl
	return plan, nil
}

// Confirm looks whether a prepared copy is still there, with the credentials that the cluster's first member is going to use.
func (p *Prover) Confirm(ctx context.Context, namespace string, source record.Source, prepared record.Prepared) error {
	from, err := p.store(ctx, namespace, source)
	if err != nil {
		return err
	}
	info, err := from.Head(ctx, prepared.Key)
	if err != nil {
		return err
	}
	if info.Size != prepared.SizeBytes {
		return store.Failed("HEAD "+prepared.Key, store.ErrChanged, fmt.Sprintf("%d bytes are there of the %d that were stored", info.Size, prepared.SizeBytes))
	}
	return nil
}

// Discard removes a prepared copy. It refuses any key that is not one of the owner's.
func (p *Prover) Discard(ctx context.Context, namespace, owner string, source record.Source, key string) error {
	if uid, ok := artifact.PreparedFor(key); !ok || uid != owner {
		return fmt.Errorf("%s is no copy that RestoreJob %s has prepared", key, owner)
	}
	from, err := p.store(ctx, namespace, source)
	if err != nil {
		return err
	}
	return from.Delete(ctx, key)
}

func (p *Prover) fetch(ctx context.Context, namespace string, source record.Source) (artifact.File, *artifact.Workspace, error) {
	from, err := p.store(ctx, namespace, source)
	if err != nil {
		return artifact.File{}, nil, err
	}
	need := source.SizeBytes
	if need > 0 {
		// What has no room to be prepared is not worth fetching.
		need += artifact.PrepareNeed(need)
	}
	w, err := p.Scratch.Open(ctx, need)
	if err != nil {
		return artifact.File{}, nil, err
	}
	file, err := artifact.Fetch(ctx, from, source.Key, artifact.Record{SizeBytes: source.SizeBytes, Checksum: source.Checksum}, w)
	if err != nil {
		return artifact.File{}, nil, errors.Join(err, w.Close())
	}
	return file, w, nil
}

func (p *Prover) store(ctx context.Context, namespace string, source record.Source) (store.Store, error) {
	secret, err := p.secret(ctx, namespace, source.CredentialsSecretName)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{etcdv1alpha2.AccessKeyIDKey, etcdv1alpha2.SecretAccessKeyKey} {
		if problem := backupstrategy.CredentialProblem(secret.Data[key]); problem != "" {
			return nil, fault.Terminalf(backupsv1alpha1.ReasonCredentialsSecretInvalid, "Secret %q with the S3 credentials: key %s %s", secret.Name, key, problem)
		}
	}
	return s3.New(s3.Config{
		Endpoint: source.Endpoint, Bucket: source.Bucket, Region: source.Region, ForcePathStyle: source.ForcePathStyle,
		AccessKeyID: string(secret.Data[etcdv1alpha2.AccessKeyIDKey]), SecretAccessKey: string(secret.Data[etcdv1alpha2.SecretAccessKeyKey]),
		CredentialsFrom: fmt.Sprintf("Secret %q", secret.Name),
	}), nil
}

func (p *Prover) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, fault.Terminalf(backupsv1alpha1.ReasonCredentialsSecretInvalid, "Secret %q is not in this namespace: create it again, as the restored cluster's first member needs it too", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %q: %w", name, err)
	}
	return secret, nil
}

// checkLogin compares the password of the cluster's login with the snapshot's, whose users come back with it.
func (p *Prover) checkLogin(ctx context.Context, namespace string, auth artifact.Auth, login Login) error {
	if login.SecretName == "" || !auth.Enabled {
		return nil
	}
	secret, err := p.secret(ctx, namespace, login.SecretName)
	if err != nil {
		return err
	}
	user := string(secret.Data[corev1.BasicAuthUsernameKey])
	if user == "" {
		user = "root"
	}
	return auth.CheckPassword(user, string(secret.Data[corev1.BasicAuthPasswordKey]))
}
