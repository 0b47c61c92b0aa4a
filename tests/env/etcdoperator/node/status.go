package node

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type condition struct {
	status corev1.ConditionStatus
	at     metav1.Time
}

func waitingStatus(c corev1.Container, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, Started: ptr.To(false),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
}

// publish writes the Pod's status. The UID makes it fail for a namesake.
func (r *runner) publish(ctx context.Context) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": r.pod.UID}, "status": r.snapshot()})
	if err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.key.Namespace, Name: r.key.Name}}
	return r.client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, body))
}

func (r *runner) snapshot() corev1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	initialized, ready, running := true, len(r.mains) > 0, false
	for _, s := range r.inits {
		initialized = initialized && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
	for _, s := range r.mains {
		ready = ready && s.Ready
		running = running || s.State.Running != nil || s.RestartCount > 0 || s.State.Terminated != nil
	}
	status := corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: r.inits, ContainerStatuses: r.mains, HostIP: "127.0.0.1", PodIP: "127.0.0.1"}
	reason := "ContainersNotReady"
	switch {
	case r.finished:
		status.Phase, reason = corev1.PodSucceeded, "PodCompleted"
		for _, s := range append(r.mains[:len(r.mains):len(r.mains)], r.inits...) {
			if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
				status.Phase, reason = corev1.PodFailed, "PodFailed"
			}
		}
	case running:
		status.Phase = corev1.PodRunning
	}
	if ready {
		reason = ""
	}
	status.Conditions = []corev1.PodCondition{
		r.condition("PodReadyToStartContainers", r.mounted && !r.finished, ""),
		r.condition(corev1.PodInitialized, initialized, unless(initialized, "ContainersNotInitialized")),
		r.condition(corev1.PodReady, ready, reason),
		r.condition(corev1.ContainersReady, ready, reason),
		r.condition(corev1.PodScheduled, true, ""),
	}
	return status
}

func unless(ok bool, reason string) string {
	if ok {
		return ""
	}
	return reason
}

func (r *runner) condition(kind corev1.PodConditionType, ok bool, reason string) corev1.PodCondition {
	status := corev1.ConditionFalse
	if ok {
		status = corev1.ConditionTrue
	}
	if r.since[string(kind)].status != status {
		r.since[string(kind)] = condition{status, metav1.Now()}
	}
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: r.since[string(kind)].at}
}

func (r *runner) started(status *corev1.ContainerStatus) {
	r.change(func() {
		status.Started = ptr.To(true)
		status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	})
}

func (r *runner) ready(status *corev1.ContainerStatus, ready bool) {
	r.change(func() { status.Ready = ready })
}

// ended records the end of a container; final says that the Pod ends with it.
func (r *runner) ended(status *corev1.ContainerStatus, startedAt time.Time, code int32, final bool) {
	r.change(func() {
		reason := "Completed"
		if code != 0 {
			reason = "Error"
		}
		status.Ready, status.Started = code == 0 && r.isInit(status), ptr.To(false)
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, StartedAt: metav1.NewTime(startedAt), FinishedAt: metav1.Now(),
		}}
		r.finished = final
	})
}

func (r *runner) isInit(status *corev1.ContainerStatus) bool {
	for i := range r.inits {
		if &r.inits[i] == status {
			return true
		}
	}
	return false
}

// endStates shows every container that still ran as ended well: it was asked to.
func (r *runner) endStates() {
	r.change(func() {
		for i := range r.mains {
			if s := &r.mains[i]; s.State.Running != nil {
				s.Ready, s.Started = false, ptr.To(false)
				s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "Completed", StartedAt: s.State.Running.StartedAt, FinishedAt: metav1.Now(),
				}}
			}
		}
		r.finished = true
	})
}
