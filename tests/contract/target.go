// Package contract states what the cozystack etcd-operator (v1alpha2) does, one fact at a time. A fact speaks to the Kubernetes API and to two ports only, so the same
// facts are checked against the double of the local environment and against the real operator on a real cluster.
//
// Known of the operator, and stated by no fact yet:
//   - spec.auth with AuthRequiredNotConfigured and AuthCredentialsRejected, and AuthLatchTimeout of a snapshot: the double has no authentication, and the tenant
//     chart never asks for it.
//   - A server certificate without the usage "client auth": etcd's gateway needs it to dial itself, and the suite's certificates always have it.
//   - A prepared copy, with bumped revision and old revisions marked compacted, restores: the end-to-end tests show that for the double.
package contract

import (
	"context"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Dialer reaches a member or a Service of a namespace by its host name (<member>.<cluster>.<namespace>.svc or <service>.<namespace>.svc) on the client port.
type Dialer func(ctx context.Context, host string) (net.Conn, error)

// Store is an S3 bucket and the two addresses of its server.
type Store struct {
	Inside, Outside      string // endpoints as Pods and as this process see the server
	Bucket, Region       string
	AccessKey, SecretKey string
	// Denying is an endpoint, as Pods see it, where looking for an object that does not exist gives 403, as without the right to list. Empty: such facts are left out.
	Denying string
}

// Client talks to the server from outside.
func (s Store) Client() *s3.Client {
	return s3.New(s3.Options{
		Region: s.Region, BaseEndpoint: aws.String(s.Outside), UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
}

// Target is an operator under observation.
type Target struct {
	Client client.WithWatch
	Dial   Dialer
	Store  Store
	// ClusterDomain is what reverse DNS answers with.
	ClusterDomain string
	// Version of etcd that the target can run, and OtherMinor one of another minor version; empty OtherMinor leaves the fact out.
	Version, OtherMinor string
	// RestoresItsMinorOnly is true for v0.5.4.
	RestoresItsMinorOnly bool
	// Patience is how long a step may take that takes a second on the double: a real node needs minutes for some.
	Patience time.Duration
	// Quiet is how long nothing must happen before a fact says that nothing happens.
	Quiet time.Duration
}

// Fact is one statement and the way to see it. Run returns nil if it holds.
type Fact struct {
	Name      string
	Statement string
	Run       func(ctx context.Context, t *Target) error
}

// Facts lists all that apply to the target.
func Facts(t *Target) []Fact {
	var all []Fact
	for _, group := range [][]Fact{objectFacts(), tlsFacts(), lifeFacts(), editFacts(), snapshotFacts(t), restoreFacts(t)} {
		all = append(all, group...)
	}
	return all
}

// Find returns the facts of the given names.
func Find(t *Target, names ...string) []Fact {
	var found []Fact
	for _, f := range Facts(t) {
		for _, name := range names {
			if f.Name == name {
				found = append(found, f)
			}
		}
	}
	return found
}
