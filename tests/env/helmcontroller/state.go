package helmcontroller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// state compares Helm's newest record with what this HelmRelease did last and wants now.
func (r *run) state(ctx context.Context) (state, error) {
	cfg, err := r.configuration(ctx, "", false, false)
	if err != nil {
		return "", err
	}
	last, err := cfg.Releases.Last(r.releaseName())
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return absent, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the release record: %w", err)
	}
	if last.Info.Status.IsPending() {
		return locked, nil
	}
	if last.Info.Status == release.StatusUninstalled {
		return absent, nil
	}
	if h := r.hr.Status.History; len(h) == 0 || h[0].Version != last.Version || h[0].Digest != recordDigest(last) {
		r.hr.Status.History = nil
		return unmanaged, nil
	}
	switch last.Info.Status {
	case release.StatusFailed:
		return failed, nil
	case release.StatusDeployed:
		return r.deployedState(ctx, last)
	}
	return "", fmt.Errorf("release record with status %q", last.Info.Status)
}

func (r *run) deployedState(ctx context.Context, last *release.Release) (state, error) {
	current := r.hr.Status.History[0]
	if last.Chart.Metadata.Name != r.chart.Metadata.Name || last.Chart.Metadata.Version != r.chart.Metadata.Version || current.ConfigDigest != r.digest {
		return outOfSync, nil
	}
	if d := r.hr.Spec.DriftDetection; d == nil || (d.Mode != "enabled" && d.Mode != "warn") {
		return inSync, nil
	}
	diffs, err := r.drift(ctx, last)
	if err != nil {
		return "", err
	}
	if len(diffs) > 0 {
		return drifted, nil
	}
	return inSync, nil
}

// recordDigest covers what an action of somebody else would change in a record.
func recordDigest(rel *release.Release) string {
	b, err := json.Marshal(struct {
		Name, Namespace, Manifest string
		Version                   int
		Info                      *release.Info
		Config                    map[string]any
	}{rel.Name, rel.Namespace, rel.Manifest, rel.Version, rel.Info, rel.Config})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// observe takes Helm's records into the history, newest first. Records from before this HelmRelease stay out.
func (r *run) observe(ctx context.Context) error {
	cfg, err := r.configuration(ctx, "", false, false)
	if err != nil {
		return err
	}
	records, err := cfg.Releases.History(r.releaseName())
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("read the release records: %w", err)
	}
	sort.Slice(records, func(i, j int) bool { return records[i].Version > records[j].Version })
	oldest := 0
	if h := r.hr.Status.History; len(h) > 0 {
		oldest = h[len(h)-1].Version
	}
	var history []fluxv2.Snapshot
	for i, rel := range records {
		if i == 0 || (oldest > 0 && rel.Version >= oldest) {
			history = append(history, snapshot(rel))
		}
	}
	r.hr.Status.History = history
	return nil
}

func snapshot(rel *release.Release) fluxv2.Snapshot {
	s := fluxv2.Snapshot{
		Digest: recordDigest(rel), Name: rel.Name, Namespace: rel.Namespace, Version: rel.Version, Status: rel.Info.Status.String(),
		ChartName: rel.Chart.Metadata.Name, ChartVersion: rel.Chart.Metadata.Version, AppVersion: rel.Chart.Metadata.AppVersion, ConfigDigest: configDigest(rel.Config),
		FirstDeployed: metav1.NewTime(rel.Info.FirstDeployed.Time), LastDeployed: metav1.NewTime(rel.Info.LastDeployed.Time),
	}
	if !rel.Info.Deleted.IsZero() {
		deleted := metav1.NewTime(rel.Info.Deleted.Time)
		s.Deleted = &deleted
	}
	return s
}

// keepHistory drops everything older than the release before the current one.
func (r *run) keepHistory() {
	h := r.hr.Status.History
	for i := range h {
		if i > 0 && (h[i].Status == "superseded" || h[i].Status == "deployed") {
			r.hr.Status.History = h[:i+1]
			return
		}
	}
}
