{{- define "saiten.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "saiten.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "saiten.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "saiten.selector" -}}
app.kubernetes.io/name: {{ include "saiten.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "saiten.labels" -}}
{{ include "saiten.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "saiten.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* Not empty where the database is SQLite. */}}
{{- define "saiten.sqlite" -}}
{{- if not .Values.database.urlSecret.name }}yes{{ end -}}
{{- end -}}

{{/* Not empty where API processes share a queue with workers. */}}
{{- define "saiten.workers" -}}
{{- if .Values.redis.urlSecret.name }}yes{{ end -}}
{{- end -}}

{{/* What one value alone cannot say; the rest is in values.schema.json. */}}
{{- define "saiten.check" -}}
{{- $several := or (gt (int .Values.api.replicas) 1) .Values.api.autoscaling.enabled -}}
{{- if and $several (include "saiten.sqlite" .) -}}
{{- fail "api.replicas, api.autoscaling: more than one API replica needs PostgreSQL; name its Secret in database.urlSecret.name" -}}
{{- end -}}
{{- if and $several (not (include "saiten.workers" .)) -}}
{{- fail "api.replicas, api.autoscaling: more than one API replica needs Redis; name its Secret in redis.urlSecret.name" -}}
{{- end -}}
{{- if and (include "saiten.workers" .) (include "saiten.sqlite" .) -}}
{{- fail "redis.urlSecret: workers need PostgreSQL beside Redis; name its Secret in database.urlSecret.name" -}}
{{- end -}}
{{- if and .Values.worker.autoscaling.enabled (not (include "saiten.workers" .)) -}}
{{- fail "worker.autoscaling: there are no workers without Redis; name its Secret in redis.urlSecret.name" -}}
{{- end -}}
{{- range $part := list "api" "worker" -}}
{{- $scaling := (index $.Values $part).autoscaling -}}
{{- if and $scaling.enabled (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- fail (printf "%s.autoscaling: minReplicas is above maxReplicas" $part) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.worker.autoscaling.enabled (eq .Values.worker.autoscaling.by "keda") (not .Values.worker.autoscaling.keda.prometheusUrl) -}}
{{- fail "worker.autoscaling.keda.prometheusUrl: KEDA asks Prometheus for the age of the queue; say where it is" -}}
{{- end -}}
{{- $judge := .Values.judge -}}
{{- if not (or $judge.apiKeySecret.name $judge.baseUrl) -}}
{{- if eq $judge.kind "openai" -}}
{{- fail "judge.apiKeySecret.name: judge.kind openai needs a key, or judge.baseUrl for an endpoint without keys; name the Secret that holds it" -}}
{{- end -}}
{{- if and $judge.model (ne $judge.kind "lexical") -}}
{{- fail "judge.model: needs a key or an endpoint; name the Secret in judge.apiKeySecret.name, or set judge.baseUrl" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.encoder.weights.existingClaim .Values.encoder.weights.hostPath -}}
{{- fail "encoder.weights: existingClaim or hostPath, not both" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.host: an Ingress needs the name that it answers to" -}}
{{- end -}}
{{- end -}}

{{- define "saiten.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "saiten.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What every pod spec begins with. */}}
{{- define "saiten.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  {{- include "saiten.podSecurity" . | nindent 2 }}
{{- end -}}

{{- define "saiten.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .from.name }}
      key: {{ .from.key }}
{{- end -}}

{{- define "saiten.databaseEnv" -}}
{{- if include "saiten.sqlite" . -}}
- name: DATABASE_URL
  value: sqlite+aiosqlite:////var/lib/saiten/data/saiten.db
{{- else -}}
{{ include "saiten.secretEnv" (dict "name" "DATABASE_URL" "from" .Values.database.urlSecret) }}
{{- end }}
{{- if .Values.tls.caSecret.name }}
- name: PGSSLROOTCERT
  value: /etc/saiten/tls/ca.crt
{{- end }}
{{- end -}}

{{- define "saiten.env" -}}
{{ include "saiten.databaseEnv" . }}
{{- if include "saiten.workers" . }}
{{ include "saiten.secretEnv" (dict "name" "REDIS_URL" "from" .Values.redis.urlSecret) }}
{{- end }}
{{- if .Values.judge.apiKeySecret.name }}
{{ include "saiten.secretEnv" (dict "name" "OPENAI_API_KEY" "from" .Values.judge.apiKeySecret) }}
{{- end }}
{{- if .Values.translator.apiKeySecret.name }}
{{ include "saiten.secretEnv" (dict "name" "DEEPL_API_KEY" "from" .Values.translator.apiKeySecret) }}
{{- end }}
{{- if .Values.monitors.sinksSecret.name }}
{{ include "saiten.secretEnv" (dict "name" "SAITEN_SINKS" "from" .Values.monitors.sinksSecret) }}
{{- end }}
{{- if .Values.tracing.headersSecret.name }}
{{ include "saiten.secretEnv" (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "from" .Values.tracing.headersSecret) }}
{{- end }}
{{- end -}}

{{/* Names by which callers without a key reach the service; not NAME.NAMESPACE, which somebody may register. */}}
{{- define "saiten.hosts" -}}
{{- $service := printf "%s.%s.svc" (include "saiten.fullname" .) .Release.Namespace -}}
{{- printf "%s,%s.cluster.local" $service $service -}}
{{- if .Values.ingress.enabled }},{{ .Values.ingress.host }}{{ end -}}
{{- end -}}

{{/* The settings that are no secrets; what is empty is left to the service's default. */}}
{{- define "saiten.settings" -}}
{{- $known := dict
  "SAITEN_JUDGE" .Values.judge.kind
  "SAITEN_MODEL" .Values.judge.model
  "OPENAI_BASE_URL" .Values.judge.baseUrl
  "SAITEN_JUDGE_EXTRA" (ternary (toJson .Values.judge.extra) "" (gt (len .Values.judge.extra) 0))
  "DEEPL_SERVER_URL" .Values.translator.serverUrl
  "SAITEN_ENCODER" .Values.encoder.name
  "SAITEN_ENCODER_JA" .Values.encoder.ja
  "SAITEN_ENCODER_KO" .Values.encoder.ko
  "SAITEN_ENCODER_EN" .Values.encoder.en
  "SAITEN_RUBRICS" (ternary "/etc/saiten/rubrics" "" (ne .Values.rubrics.configMap ""))
  "SAITEN_ALLOW_ANONYMOUS" (ternary "true" "false" .Values.allowAnonymous)
  "SAITEN_ALLOWED_HOSTS" (ternary (include "saiten.hosts" .) "" .Values.allowAnonymous)
  "SAITEN_SECURE_COOKIES" (ternary "true" "" (and .Values.ingress.enabled (ne .Values.ingress.tlsSecretName "")))
  "SAITEN_TRACING" (ternary "otlp" "" (ne .Values.tracing.endpoint ""))
  "OTEL_EXPORTER_OTLP_ENDPOINT" .Values.tracing.endpoint
  "HF_HUB_OFFLINE" (ternary "" "1" .Values.encoder.download)
  "HF_HOME" (ternary "/tmp/huggingface" (ternary "/models" "" (ne (include "saiten.weights" .) "")) .Values.encoder.download)
-}}
{{- range $name, $value := mergeOverwrite (dict) $known .Values.settings }}
{{- if ne (toString $value) "" }}
{{ $name }}: {{ toString $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "saiten.weights" -}}
{{- if or .Values.encoder.weights.existingClaim .Values.encoder.weights.hostPath }}yes{{ end -}}
{{- end -}}

{{- define "saiten.tlsMount" -}}
{{- if .Values.tls.caSecret.name }}
- name: tls
  mountPath: /etc/saiten/tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "saiten.tlsVolume" -}}
{{- with .Values.tls.caSecret }}
{{- if .name }}
- name: tls
  secret:
    secretName: {{ .name }}
    items:
      - key: {{ .key }}
        path: ca.crt
{{- end }}
{{- end }}
{{- end -}}

{{- define "saiten.mounts" -}}
- name: scratch
  mountPath: /tmp
{{- if include "saiten.sqlite" . }}
- name: data
  mountPath: /var/lib/saiten/data
{{- end }}
{{- if include "saiten.weights" . }}
- name: weights
  mountPath: /models
  readOnly: true
{{- end }}
{{- if .Values.rubrics.configMap }}
- name: rubrics
  mountPath: /etc/saiten/rubrics
  readOnly: true
{{- end }}
{{- include "saiten.tlsMount" . }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "saiten.volumes" -}}
- name: scratch
  emptyDir:
    sizeLimit: {{ .Values.scratch.sizeLimit }}
{{- if include "saiten.sqlite" . }}
- name: data
  persistentVolumeClaim:
    claimName: {{ default (include "saiten.fullname" .) .Values.database.persistence.existingClaim }}
{{- end }}
{{- with .Values.encoder.weights }}
{{- if .existingClaim }}
- name: weights
  persistentVolumeClaim:
    claimName: {{ .existingClaim }}
    readOnly: true
{{- else if .hostPath }}
- name: weights
  hostPath:
    path: {{ .hostPath }}
    type: Directory
{{- end }}
{{- end }}
{{- with .Values.rubrics.configMap }}
- name: rubrics
  configMap:
    name: {{ . }}
{{- end }}
{{- include "saiten.tlsVolume" . }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Where a pod may run; takes root, part, component. */}}
{{- define "saiten.placement" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "saiten.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
{{ include "saiten.nodes" .part }}
{{- end -}}

{{/* On which nodes, of a part. */}}
{{- define "saiten.nodes" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "saiten.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
timeoutSeconds: 5
{{- end -}}

{{/* The TCP port of an http(s) URL. */}}
{{- define "saiten.port" -}}
{{- regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" .)) -}}
{{- end -}}

{{/* Names, and the ports of database, Redis, judge and translator. */}}
{{- define "saiten.egress" -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- with .Values.networkPolicy.egressPorts }}
- ports:
    {{- range . }}
    - {protocol: TCP, port: {{ . }} }
    {{- end }}
{{- end }}
{{- end -}}
