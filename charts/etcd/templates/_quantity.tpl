{{/*
Quantities with the whole grammar of Kubernetes and exact arithmetic. Templates have only int64 and float64, so numbers travel as strings of decimal digits of any length.
*/}}

{{/*
etcd.quantity.text: the spelling of a value that YAML may have turned into a number. 10737418240 arrives as a float64 and must not become 1.073741824e+10.
*/}}
{{- define "etcd.quantity.text" -}}
{{- if kindIs "float64" . -}}
  {{- if and (eq (floor .) .) (lt . 1e15) -}}{{ printf "%.0f" . }}{{- else -}}{{ printf "%v" . }}{{- end -}}
{{- else if or (kindIs "bool" .) (kindIs "map" .) (kindIs "slice" .) (kindIs "invalid" .) -}}
{{- else -}}
  {{- . | toString -}}
{{- end -}}
{{- end }}

{{/*
etcd.quantity.whole: {field, value, decimals} as a whole number of units of 10^-decimals, a fraction rounded up as Kubernetes does; a positive number, or the render fails.
*/}}
{{- define "etcd.quantity.whole" -}}
{{- $text := include "etcd.quantity.text" .value -}}
{{- $decimals := int (.decimals | default 0) -}}
{{- if not (regexMatch "^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$" $text) -}}
  {{- fail (printf "%s: %q is not a positive Kubernetes quantity; write for example %s" .field (.value | toString) .example) -}}
{{- end -}}
{{- $number := regexFind "^[+]?[0-9.]+" $text -}}
{{- $suffix := trimPrefix $number $text -}}
{{- $fraction := regexFind "[.].*" $number | trimPrefix "." -}}
{{- $digits := regexReplaceAll "[+.]" $number "" -}}
{{- $point := sub (len $fraction) $decimals -}}
{{- if hasSuffix "i" $suffix -}}
  {{- range until (get (dict "Ki" 1 "Mi" 2 "Gi" 3 "Ti" 4 "Pi" 5 "Ei" 6) $suffix) -}}
    {{- $digits = include "etcd.digits.times1024" $digits -}}
  {{- end -}}
{{- else -}}
  {{- $point = sub $point (include "etcd.quantity.exponent" $suffix | int64) -}}
{{- end -}}
{{- $whole := include "etcd.digits.ceil" (dict "digits" $digits "point" $point) -}}
{{- if eq $whole "0" -}}
  {{- fail (printf "%s: %q is zero; write for example %s" .field (.value | toString) .example) -}}
{{- end -}}
{{- $whole -}}
{{- end }}

{{/*
etcd.quantity.exponent: the power of ten of a decimal suffix. Beyond three digits it stands for "far outside of anything", which the callers treat alike.
*/}}
{{- define "etcd.quantity.exponent" -}}
{{- if regexMatch "^[eE].+" . -}}
  {{- $sign := ternary "-" "" (contains "-" .) -}}
  {{- $digits := regexReplaceAll "^[eE][+-]?0*" . "" | default "0" -}}
  {{- printf "%s%s" $sign (ternary $digits "999" (le (len $digits) 3)) -}}
{{- else -}}
  {{- get (dict "n" -9 "u" -6 "m" -3 "" 0 "k" 3 "M" 6 "G" 9 "T" 12 "P" 15 "E" 18) . -}}
{{- end -}}
{{- end }}

{{/* etcd.digits.times1024: long multiplication, nine digits at a time. The leading 1 keeps a chunk such as 012 from being read as octal. */}}
{{- define "etcd.digits.times1024" -}}
{{- $digits := printf "%s%s" (repeat (mod (sub 9 (mod (len .) 9)) 9 | int) "0") . -}}
{{- $product := "" -}}
{{- $carry := 0 -}}
{{- range $i := until (div (len $digits) 9 | int) -}}
  {{- $end := sub (len $digits) (mul $i 9) | int -}}
  {{- $chunk := sub (printf "1%s" (substr (sub $end 9 | int) $end $digits) | int64) 1000000000 -}}
  {{- $sum := add (mul $chunk 1024) $carry -}}
  {{- $product = printf "%09d%s" (mod $sum 1000000000) $product -}}
  {{- $carry = div $sum 1000000000 -}}
{{- end -}}
{{- printf "%d%s" $carry $product -}}
{{- end }}

{{/* etcd.digits.ceil: {digits, point}: the number with that many digits behind the point (negative: zeros to append), rounded up. */}}
{{- define "etcd.digits.ceil" -}}
{{- $digits := regexReplaceAll "^0+" .digits "" -}}
{{- $whole := "" -}}
{{- $rest := "" -}}
{{- if and $digits (le (int .point) 0) -}}
  {{- $whole = printf "%s%s" $digits (repeat (sub 0 .point | int) "0") -}}
{{- else if $digits -}}
  {{- $cut := max 0 (sub (len $digits) .point) | int -}}
  {{- $whole = substr 0 $cut $digits -}}
  {{- $rest = substr $cut (len $digits) $digits -}}
{{- end -}}
{{- $whole = $whole | default "0" -}}
{{- if and (regexMatch "[1-9]" $rest) (lt (len $whole) 18) -}}
  {{- add1 (int64 $whole) -}}
{{- else -}}
  {{- $whole -}}
{{- end -}}
{{- end }}

{{/* etcd.digits.less: {a, b}: "true" where the whole number a is smaller than b. Strings of one length compare like the numbers. */}}
{{- define "etcd.digits.less" -}}
{{- if or (lt (len .a) (len .b)) (and (eq (len .a) (len .b)) (lt .a .b)) -}}true{{- end -}}
{{- end }}
