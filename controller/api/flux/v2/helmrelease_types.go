package v2

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HelmRelease is a Helm release that Flux keeps as its spec says.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hr,categories=all;fluxcd;fluxcd-appliers
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type HelmRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HelmReleaseSpec `json:"spec,omitempty"`
	// +kubebuilder:default:={"observedGeneration":-1}
	Status HelmReleaseStatus `json:"status,omitempty"`
}

// HelmReleaseList is a list of HelmRelease.
// +kubebuilder:object:root=true
type HelmReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HelmRelease `json:"items"`
}

// HelmReleaseSpec is the desired release. Fields that nobody here reads are kept as they are.
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="has(self.chart) != has(self.chartRef)",message="either chart or chartRef must be set, and not both"
type HelmReleaseSpec struct {
	// Chart is a template for the source's chart object.
	// +optional
	Chart *ChartTemplate `json:"chart,omitempty"`
	// ChartRef points at a chart object that exists.
	// +optional
	ChartRef *ChartRef `json:"chartRef,omitempty"`
	// Interval between two reconciliations.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Interval metav1.Duration `json:"interval"`
	// Suspend stops reconciliation.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// ReleaseName is by default the target namespace and the name, or the name alone where no target is given.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	ReleaseName string `json:"releaseName,omitempty"`
	// TargetNamespace of the release; the object's own when absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	TargetNamespace string `json:"targetNamespace,omitempty"`
	// StorageNamespace of Helm's records; the object's own when absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	StorageNamespace string `json:"storageNamespace,omitempty"`
	// Timeout of a single Helm action.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// MaxHistory of Helm's records.
	// +optional
	MaxHistory *int `json:"maxHistory,omitempty"`
	// Install configures the first action.
	// +optional
	Install *Install `json:"install,omitempty"`
	// Upgrade configures later actions.
	// +optional
	Upgrade *Upgrade `json:"upgrade,omitempty"`
	// Uninstall configures the last action.
	// +optional
	Uninstall *Uninstall `json:"uninstall,omitempty"`
	// DriftDetection compares the live objects with the release.
	// +optional
	DriftDetection *DriftDetection `json:"driftDetection,omitempty"`
	// ValuesFrom are merged in their order, before Values.
	// +optional
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`
	// Values of the release.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`
}

// ChartTemplate describes a chart in a source.
// +kubebuilder:pruning:PreserveUnknownFields
type ChartTemplate struct {
	// Spec of the chart.
	Spec ChartTemplateSpec `json:"spec"`
}

// ChartTemplateSpec says which chart of which source.
// +kubebuilder:pruning:PreserveUnknownFields
type ChartTemplateSpec struct {
	// Chart is a name or a path in the source.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Chart string `json:"chart"`
	// Version is a range.
	// +optional
	// +kubebuilder:default=*
	Version string `json:"version,omitempty"`
	// SourceRef names the source.
	SourceRef SourceRef `json:"sourceRef"`
	// ReconcileStrategy tells what counts as a new chart.
	// +optional
	// +kubebuilder:default=ChartVersion
	// +kubebuilder:validation:Enum=ChartVersion;Revision
	ReconcileStrategy string `json:"reconcileStrategy,omitempty"`
}

// SourceRef names a source of charts.
type SourceRef struct {
	// APIVersion of the source.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the source.
	// +kubebuilder:validation:Enum=HelmRepository;GitRepository;Bucket
	Kind string `json:"kind"`
	// Name of the source.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the source.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// ChartRef points at a chart object.
type ChartRef struct {
	// APIVersion of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object.
	// +kubebuilder:validation:Enum=OCIRepository;HelmChart;ExternalArtifact
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// Strategies of a failed action.
const (
	StrategyRemediateOnFailure = "RemediateOnFailure"
	StrategyRetryOnFailure     = "RetryOnFailure"
)

// Install configures the first action.
// +kubebuilder:pruning:PreserveUnknownFields
type Install struct {
	// Strategy for a failed install; RemediateOnFailure when absent.
	// +optional
	Strategy *ActionStrategy `json:"strategy,omitempty"`
	// Remediation of a failed install.
	// +optional
	Remediation *Remediation `json:"remediation,omitempty"`
	// DisableWait returns before the objects are ready.
	// +optional
	DisableWait bool `json:"disableWait,omitempty"`
	// ServerSideApply instead of a client-side create.
	// +optional
	ServerSideApply *bool `json:"serverSideApply,omitempty"`
}

// Upgrade configures later actions.
// +kubebuilder:pruning:PreserveUnknownFields
type Upgrade struct {
	// Strategy for a failed upgrade; RemediateOnFailure when absent.
	// +optional
	Strategy *ActionStrategy `json:"strategy,omitempty"`
	// Remediation of a failed upgrade.
	// +optional
	Remediation *UpgradeRemediation `json:"remediation,omitempty"`
	// Force replaces what cannot be patched; with server-side apply it takes over fields of others.
	// +optional
	Force bool `json:"force,omitempty"`
	// ServerSideApply is enabled, disabled or auto.
	// +optional
	// +kubebuilder:validation:Enum=enabled;disabled;auto
	ServerSideApply string `json:"serverSideApply,omitempty"`
	// DisableWait returns before the objects are ready.
	// +optional
	DisableWait bool `json:"disableWait,omitempty"`
}

// ActionStrategy tells what follows a failure.
// +kubebuilder:validation:XValidation:rule="!has(self.retryInterval) || self.name == 'RetryOnFailure'",message="retryInterval goes with the strategy RetryOnFailure only"
type ActionStrategy struct {
	// Name of the strategy.
	// +kubebuilder:validation:Enum=RemediateOnFailure;RetryOnFailure
	Name string `json:"name"`
	// RetryInterval of RetryOnFailure.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	RetryInterval *metav1.Duration `json:"retryInterval,omitempty"`
}

// Remediation uninstalls after a failed install.
// +kubebuilder:pruning:PreserveUnknownFields
type Remediation struct {
	// Retries before giving up; negative means without end, 0 none.
	// +optional
	Retries int `json:"retries,omitempty"`
	// RemediateLastFailure also remediates when no retry is left; by default only where Retries is not 0.
	// +optional
	RemediateLastFailure *bool `json:"remediateLastFailure,omitempty"`
}

// UpgradeRemediation rolls back or uninstalls after a failed upgrade.
// +kubebuilder:pruning:PreserveUnknownFields
type UpgradeRemediation struct {
	// Retries before giving up; negative means without end, 0 none.
	// +optional
	Retries int `json:"retries,omitempty"`
	// RemediateLastFailure also remediates when no retry is left; by default only where Retries is not 0.
	// +optional
	RemediateLastFailure *bool `json:"remediateLastFailure,omitempty"`
	// Strategy is rollback or uninstall.
	// +optional
	// +kubebuilder:validation:Enum=rollback;uninstall
	Strategy string `json:"strategy,omitempty"`
}

// Uninstall configures the last action.
// +kubebuilder:pruning:PreserveUnknownFields
type Uninstall struct {
	// DeletionPropagation of the objects.
	// +optional
	// +kubebuilder:default=background
	// +kubebuilder:validation:Enum=background;foreground;orphan
	DeletionPropagation string `json:"deletionPropagation,omitempty"`
	// DisableWait returns before the objects are gone.
	// +optional
	DisableWait bool `json:"disableWait,omitempty"`
	// KeepHistory keeps Helm's records.
	// +optional
	KeepHistory bool `json:"keepHistory,omitempty"`
}

// DriftDetection compares the live objects with the release.
// +kubebuilder:pruning:PreserveUnknownFields
type DriftDetection struct {
	// Mode is enabled, warn or disabled.
	// +optional
	// +kubebuilder:validation:Enum=enabled;warn;disabled
	Mode string `json:"mode,omitempty"`
}

// ValuesReference names values in a Secret or ConfigMap of the object's namespace.
// +kubebuilder:pruning:PreserveUnknownFields
type ValuesReference struct {
	// Kind of the object.
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// ValuesKey in the object; values.yaml when absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[\-._a-zA-Z0-9]+$`
	ValuesKey string `json:"valuesKey,omitempty"`
	// TargetPath puts the value at one place in the values.
	// +optional
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:Pattern=`^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$`
	TargetPath string `json:"targetPath,omitempty"`
	// Optional lets the object be absent.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// HelmReleaseStatus is what helm-controller reports.
// +kubebuilder:pruning:PreserveUnknownFields
type HelmReleaseStatus struct {
	// ObservedGeneration is the last one that was reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastAttemptedGeneration is the last one that an action was tried for.
	// +optional
	LastAttemptedGeneration int64 `json:"lastAttemptedGeneration,omitempty"`
	// LastAttemptedReleaseAction is install or upgrade.
	// +optional
	// +kubebuilder:validation:Enum=install;upgrade
	LastAttemptedReleaseAction string `json:"lastAttemptedReleaseAction,omitempty"`
	// LastAttemptedRevision is the chart's version.
	// +optional
	LastAttemptedRevision string `json:"lastAttemptedRevision,omitempty"`
	// LastAttemptedConfigDigest is the digest of the values.
	// +optional
	LastAttemptedConfigDigest string `json:"lastAttemptedConfigDigest,omitempty"`
	// LastHandledForceAt is the last value of the annotation that asks for an upgrade.
	// +optional
	LastHandledForceAt string `json:"lastHandledForceAt,omitempty"`
	// LastHandledReconcileAt is the last value of the annotation that asks for a reconciliation.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// StorageNamespace of Helm's records.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	StorageNamespace string `json:"storageNamespace,omitempty"`
	// History of the release, the newest first.
	// +optional
	History []Snapshot `json:"history,omitempty"`
	// Failures since the last success.
	// +optional
	Failures int64 `json:"failures,omitempty"`
	// InstallFailures since the last success.
	// +optional
	InstallFailures int64 `json:"installFailures,omitempty"`
	// UpgradeFailures since the last success.
	// +optional
	UpgradeFailures int64 `json:"upgradeFailures,omitempty"`
	// Conditions, Ready and Reconciling among them.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Snapshot is one revision of the release.
// +kubebuilder:pruning:PreserveUnknownFields
type Snapshot struct {
	// Digest of the stored release.
	Digest string `json:"digest"`
	// Name of the release.
	Name string `json:"name"`
	// Namespace of the release.
	Namespace string `json:"namespace"`
	// Version is Helm's revision.
	Version int `json:"version"`
	// Status of the revision, such as deployed.
	Status string `json:"status"`
	// ChartName of the revision.
	ChartName string `json:"chartName"`
	// ChartVersion of the revision.
	ChartVersion string `json:"chartVersion"`
	// AppVersion of the revision.
	// +optional
	AppVersion string `json:"appVersion,omitempty"`
	// ConfigDigest of the values.
	ConfigDigest string `json:"configDigest"`
	// FirstDeployed is the release's first time.
	FirstDeployed metav1.Time `json:"firstDeployed"`
	// LastDeployed is the revision's time.
	LastDeployed metav1.Time `json:"lastDeployed"`
	// Deleted is set once the release is uninstalled.
	// +optional
	Deleted *metav1.Time `json:"deleted,omitempty"`
}
