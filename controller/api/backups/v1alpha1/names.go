package v1alpha1

import "k8s.io/apimachinery/pkg/api/validate/content"

// PossibleName tells whether an object may have the name. References are free text: to ask the API server for one that is empty or holds a slash is an error
// each time, and not the answer that nothing is there.
func PossibleName(name string) bool { return name != "" && len(content.IsPathSegmentName(name)) == 0 }
