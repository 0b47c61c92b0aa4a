package record

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Findings is what a restore would change, as far as the data tell. It is found out together with the proof, since only then the object is at hand.
type Findings struct {
	DatabaseBytes int64 `json:"databaseBytes"` // keys and values of live keys

	// LiveMember answered for the live cluster; empty where nobody did, and LiveError says why nothing was compared.
	LiveMember   string `json:"liveMember,omitempty"`
	LiveRevision int64  `json:"liveRevision,omitempty"`
	LiveKeys     int64  `json:"liveKeys,omitempty"`
	LiveError    string `json:"liveError,omitempty"`

	// Vanish and Appear are nil where nothing was compared.
	Vanish *Change `json:"vanish,omitempty"`
	Appear *Change `json:"appear,omitempty"`

	// Tenants are the first path segments of the snapshot's keys. MoreTenants tells that there are others.
	Tenants     []string `json:"tenants,omitempty"`
	MoreTenants bool     `json:"moreTenants,omitempty"`

	// Lost says which control planes are lost, where no report can.
	Lost string `json:"lost,omitempty"`
}

// Change is a number of keys by prefix, the largest first; Rest counts those of prefixes that are not listed.
type Change struct {
	Keys     int64         `json:"keys"`
	Prefixes []PrefixCount `json:"prefixes,omitempty"`
	Rest     int64         `json:"rest,omitempty"`
}

// PrefixCount is a number of keys below a prefix.
type PrefixCount struct {
	Prefix string `json:"prefix"`
	Keys   int64  `json:"keys"`
}

// Consumers are the Pods of tenants' API servers that were there when the restored cluster was whole.
type Consumers struct {
	StartedAt metav1.Time   `json:"startedAt"`
	Pods      []ConsumerPod `json:"pods,omitempty"`
	// LeftOut counts Pods beyond the limit: nobody restarts them.
	LeftOut int `json:"leftOut,omitempty"`
	// Trouble names control planes whose Pods could not be found.
	Trouble []string `json:"trouble,omitempty"`
}

// ConsumerState is how far the restart of a Pod is.
type ConsumerState string

// States of a Pod. The empty state means that it is still to be evicted.
const (
	ConsumerPending   ConsumerState = ""
	ConsumerEvicted   ConsumerState = "Evicted"   // it is gone or going, and its replacement is not ready
	ConsumerRestarted ConsumerState = "Restarted" // a replacement is ready
	ConsumerFailed    ConsumerState = "Failed"
)

// ConsumerPod is one Pod of a tenant's API server.
type ConsumerPod struct {
	Namespace    string    `json:"namespace"`
	ControlPlane string    `json:"controlPlane"` // name of the TenantControlPlane and of its Deployment
	Name         string    `json:"name"`
	UID          types.UID `json:"uid"`

	State ConsumerState `json:"state,omitempty"`
	// Since is when the state was reached, or when the eviction was first refused.
	Since *metav1.Time `json:"since,omitempty"`
	// TriedAt is when the eviction was last refused.
	TriedAt *metav1.Time `json:"triedAt,omitempty"`
	Message string       `json:"message,omitempty"`
}
