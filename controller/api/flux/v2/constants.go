package v2

// Finalizer that helm-controller keeps on a HelmRelease until the release is uninstalled.
const Finalizer = "finalizers.fluxcd.io"

// Annotations that ask helm-controller for something; their values are tokens of the caller's choice.
const (
	// AnnotationReconcile asks for a reconciliation now.
	AnnotationReconcile = "reconcile.fluxcd.io/requestedAt"
	// AnnotationForce asks, with the same token in AnnotationReconcile, for an upgrade although nothing changed.
	AnnotationForce = "reconcile.fluxcd.io/forceAt"
)

// Condition types of a HelmRelease.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
	ConditionReleased    = "Released"
	ConditionRemediated  = "Remediated"
)

// Labels that helm-controller puts on the objects of a release.
const (
	LabelName      = "helm.toolkit.fluxcd.io/name"
	LabelNamespace = "helm.toolkit.fluxcd.io/namespace"
)
