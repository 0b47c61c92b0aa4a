package restorejob

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

// kamajiPair is a certificate that signs itself, with its key.
var kamajiPair = sync.OnceValue(func() map[string][]byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
})

// C31: members that agree are not enough: what cannot read waits, and is no reason to call the data wrong.
func TestC31NotWholeUntilAClientCanRead(t *testing.T) {
	refused := with(whole3(), func(s *Seen) { s.Read.Error = "the client of DataStore t cannot read" })
	d := Decide(refused)
	require.Equal(t, RowVerify, d.Row)
	require.Contains(t, d.Message, "the client of DataStore t cannot read")
	require.Equal(t, RowVerify, Decide(with(whole3(), func(s *Seen) { s.Read = ReadFacts{} })).Row, "nothing was read")
	d = Decide(with(refused, func(s *Seen) { s.Now = s.Deadline() }))
	require.Equal(t, RowExpiredIncomplete, d.Row)
	require.Contains(t, d.Outcome.Message, "the client of DataStore t cannot read")
	require.True(t, with(refused, func(*Seen) {}).serving(), "members serve whoever can log in")
}

// C31: the DataStore's client reads with the DataStore's certificate before the restore succeeds. Its Secret and its right come late here.
func TestC31TheDataStoresClientReads(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.small("again")
	g.dataStore()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.ns, Name: "s"}}
	require.NoError(t, g.admin.Delete(t.Context(), secret))
	denied, asked := true, 0
	g.refuseRead = func(as etcd.Target) error {
		asked++
		require.Equal(t, kamajiPair()["tls.crt"], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: as.TLS.Certificates[0].Certificate[0]}))
		if denied {
			return errors.New("etcdserver: permission denied")
		}
		return nil
	}
	says := func(text string) func(*backupsv1alpha1.RestoreJob) bool {
		return func(job *backupsv1alpha1.RestoreJob) bool {
			require.NotEqual(t, backupsv1alpha1.RestoreJobSucceeded, job.Status.Phase, "it must not succeed: %s", text)
			return contains(job, text)
		}
	}
	g.run("again", says(`DataStore `+g.ns+`: spec.tlsConfig.certificateAuthority.certificate: read Secret `+g.ns+`/s`))
	require.Zero(t, asked)
	g.secret("s", kamajiPair())
	g.run("again", says("the client of DataStore "+g.ns+" cannot read"))
	denied = false
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
}

func (g *rig) secret(name string, data map[string][]byte) {
	g.t.Helper()
	require.NoError(g.t, g.admin.Create(g.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.ns, Name: name}, Data: data}))
}

func contains(job *backupsv1alpha1.RestoreJob, text string) bool {
	ready := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReady)
	return ready != nil && strings.Contains(ready.Message, text)
}
