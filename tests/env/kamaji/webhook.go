package kamaji

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
)

const webhookName = "double-kamaji-datastore"

// webhook is the validating webhook of older versions, served on loopback: a policy in the API server could not look Secrets up.
type webhook struct{ server *http.Server }

func startWebhook(ctx context.Context, c client.Client) (*webhook, error) {
	certPEM, pair, err := loopbackCertificate()
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	w := &webhook{server: &http.Server{Handler: review(c), ReadHeaderTimeout: 5 * time.Second}}
	go func() { _ = w.server.Serve(listener) }()
	if err := register(ctx, c, listener.Addr().String(), certPEM); err != nil {
		_ = w.server.Close()
		return nil, err
	}
	return w, nil
}

func register(ctx context.Context, c client.Client, addr string, ca []byte) error {
	url, fail, none := "https://"+addr+"/", admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: webhookName},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "vdatastore.kb.io", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{kamajiv1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"datastores"}},
			}},
		}},
	}
	err := c.Create(ctx, hook)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := c.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookName}}); err != nil {
		return err
	}
	hook.ResourceVersion = ""
	return c.Create(ctx, hook)
}

func (w *webhook) stop(c client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = c.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookName}})
	_ = w.server.Close()
}

// review refuses a DataStore whose Secrets or keys are missing; one that is on its way out passes.
func review(c client.Reader) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := &admissionv1.AdmissionReview{}
		ds := &kamajiv1alpha1.DataStore{}
		if err := json.NewDecoder(r.Body).Decode(in); err != nil || in.Request == nil {
			http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		out := &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: true}
		err := json.Unmarshal(in.Request.Object.Raw, ds)
		if err == nil && ds.DeletionTimestamp.IsZero() {
			err = missing(r.Context(), c, ds)
		}
		if err != nil {
			out.Allowed, out.Result = false, &metav1.Status{Message: err.Error()}
		}
		in.Request, in.Response = nil, out
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(in)
	})
}

func loopbackCertificate() ([]byte, tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, tls.Certificate{}, fmt.Errorf("certificate of the webhook: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
