package node

import (
	"context"
	"path/filepath"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// jobs runs the Jobs of snapshots as the Job controller would: one Pod at a time, again after a growing pause, up to the back-off limit or the deadline.
type jobs struct{ *Node }

func (n *Node) setupJobs(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("loopback-jobs-" + filepath.Base(n.opts.Dir)).WithOptions(controllerOptions()).
		For(&batchv1.Job{}).Owns(&corev1.Pod{}).Complete(jobs{n})
}

func (j jobs) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &batchv1.Job{}
	if err := j.client.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if job.Labels[ClusterLabel] == "" || !job.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if job.Status.StartTime == nil {
		return ctrl.Result{}, j.write(ctx, job, func(s *batchv1.JobStatus) { s.StartTime = ptr.To(metav1.Now()) })
	}
	if at := finishedAt(job); !at.IsZero() {
		return j.expire(ctx, job, at)
	}
	return j.advance(ctx, job)
}

// expire deletes a finished Job after its time to live, its Pods with it.
func (j jobs) expire(ctx context.Context, job *batchv1.Job, at time.Time) (ctrl.Result, error) {
	ttl := j.opts.Timing.JobTTL
	if ttl == 0 {
		ttl = time.Duration(deref(job.Spec.TTLSecondsAfterFinished)) * time.Second
	}
	if left := time.Until(at.Add(ttl)); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := j.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

type podCount struct {
	active, ready, failed, succeeded int32
	lastEnd                          time.Time
	running                          []corev1.Pod
}

func (j jobs) count(ctx context.Context, job *batchv1.Job) (podCount, error) {
	var c podCount
	list := &corev1.PodList{}
	if err := j.client.List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return c, err
	}
	for _, p := range list.Items {
		if !metav1.IsControlledBy(&p, job) {
			continue
		}
		switch p.Status.Phase {
		case corev1.PodSucceeded:
			c.succeeded++
		case corev1.PodFailed:
			c.failed++
			if end := endOf(&p); end.After(c.lastEnd) {
				c.lastEnd = end
			}
		default:
			c.active++
			c.running = append(c.running, p)
			for _, cond := range p.Status.Conditions {
				if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
					c.ready++
				}
			}
		}
	}
	return c, nil
}

func endOf(p *corev1.Pod) time.Time {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated.FinishedAt.Time
		}
	}
	return p.CreationTimestamp.Time
}

func (j jobs) advance(ctx context.Context, job *batchv1.Job) (ctrl.Result, error) {
	c, err := j.count(ctx, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	deadline := j.opts.Timing.JobDeadline
	if deadline == 0 {
		deadline = time.Duration(deref(job.Spec.ActiveDeadlineSeconds)) * time.Second
	}
	left := time.Until(job.Status.StartTime.Add(deadline))
	switch {
	case c.succeeded > 0:
		return ctrl.Result{}, j.finish(ctx, job, c, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, "CompletionsReached", "Reached expected number of succeeded pods")
	case c.failed > deref(job.Spec.BackoffLimit):
		return ctrl.Result{}, j.finish(ctx, job, c, batchv1.JobFailureTarget, batchv1.JobFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
	case deadline > 0 && left <= 0:
		for i := range c.running {
			if err := j.client.Delete(ctx, &c.running[i]); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, j.finish(ctx, job, c, batchv1.JobFailureTarget, batchv1.JobFailed, "DeadlineExceeded", "Job was active longer than specified deadline")
	}
	if c.active == 0 {
		if wait := j.pause(c); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, j.progress(ctx, job, c)
		}
		if err := j.createPod(ctx, job); err != nil {
			return ctrl.Result{}, err
		}
		c.active = 1
	}
	return ctrl.Result{RequeueAfter: left}, j.progress(ctx, job, c)
}

// pause is what is left of the wait before the next Pod.
func (j jobs) pause(c podCount) time.Duration {
	if c.failed == 0 {
		return 0
	}
	return time.Until(c.lastEnd.Add(j.opts.Timing.JobBackOff << (c.failed - 1)))
}

func (j jobs) createPod(ctx context.Context, job *batchv1.Job) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, GenerateName: job.Name + "-", Labels: job.Spec.Template.Labels},
		Spec:       *job.Spec.Template.Spec.DeepCopy(),
	}
	if err := controllerutil.SetControllerReference(job, pod, j.opts.Scheme); err != nil {
		return err
	}
	return j.client.Create(ctx, pod)
}

func (j jobs) progress(ctx context.Context, job *batchv1.Job, c podCount) error {
	if job.Status.Active == c.active && deref(job.Status.Ready) == c.ready && job.Status.Failed == c.failed && job.Status.Ready != nil {
		return nil
	}
	return j.write(ctx, job, func(s *batchv1.JobStatus) {
		s.Active, s.Ready, s.Failed, s.Terminating = c.active, &c.ready, c.failed, ptr.To[int32](0)
	})
}

// finish writes the decision first and the end after it, as two writes: the API server accepts them in this order only.
func (j jobs) finish(ctx context.Context, job *batchv1.Job, c podCount, decided, done batchv1.JobConditionType, reason, message string) error {
	add := func(kind batchv1.JobConditionType) func(*batchv1.JobStatus) {
		return func(s *batchv1.JobStatus) {
			s.Active, s.Ready, s.Terminating = 0, ptr.To[int32](0), ptr.To[int32](0)
			if kind == done {
				s.Failed, s.Succeeded = c.failed, c.succeeded // the last Pod is counted with the end
			}
			if kind == batchv1.JobComplete {
				s.CompletionTime = ptr.To(metav1.Now())
			}
			s.Conditions = append(s.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			})
		}
	}
	if len(job.Status.Conditions) == 0 {
		if err := j.write(ctx, job, add(decided)); err != nil {
			return err
		}
	}
	return j.write(ctx, job, add(done))
}

func (j jobs) write(ctx context.Context, job *batchv1.Job, change func(*batchv1.JobStatus)) error {
	before := job.DeepCopy()
	change(&job.Status)
	return client.IgnoreNotFound(j.client.Status().Patch(ctx, job, client.MergeFrom(before)))
}

func finishedAt(job *batchv1.Job) time.Time {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
