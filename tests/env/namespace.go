package env

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// CredentialsName is the Secret with the S3 credentials that Namespace makes.
const CredentialsName = "backup-creds"

// Namespace creates a namespace, waits until Pods may be created in it, and puts the S3 credentials there as CredentialsName if the environment has an S3 server.
func (e *Env) Namespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := e.Client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	account := types.NamespacedName{Namespace: name, Name: "default"}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := e.Client.Get(ctx, account, &corev1.ServiceAccount{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("namespace %s has no service account: %w", name, err)
	}
	if e.S3 == nil {
		return nil
	}
	return e.CredentialsSecret(ctx, name, CredentialsName)
}

// CredentialsSecret puts the S3 credentials into a Secret in the form that the operator and our strategy read.
func (e *Env) CredentialsSecret(ctx context.Context, namespace, name string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": e.S3.AccessKey, "AWS_SECRET_ACCESS_KEY": e.S3.SecretKey},
	}
	if err := e.Client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("secret %s/%s: %w", namespace, name, err)
	}
	return nil
}
