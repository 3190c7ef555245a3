# python -m tailrace.cwl genomics.cwl job.yml. A step's files are staged into its folder under their own names.
cwlVersion: v1.2
$graph:
  - id: unpack
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]"}
    baseCommand: [sh, step.sh, unpack]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["genome.fa", "genome.fa.fai"]}}
  - id: index
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]"}
    baseCommand: [sh, step.sh, index]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["genome.bwa.*"]}}
  - id: simulate
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]", sample: string}
    baseCommand: [sh, step.sh, simulate]
    arguments: ["$(inputs.sample)"]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["$(inputs.sample).1.fq", "$(inputs.sample).2.fq", "$(inputs.sample).truth"]}}
  - id: align
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]", sample: string}
    baseCommand: [sh, step.sh, align]
    arguments: ["$(inputs.sample)"]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["$(inputs.sample).sam"]}}
  - id: sort
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]", sample: string}
    baseCommand: [sh, step.sh, sort]
    arguments: ["$(inputs.sample)"]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["$(inputs.sample).bam", "$(inputs.sample).bam.bai"]}}
  - id: count
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]", sample: string}
    baseCommand: [sh, step.sh, count]
    arguments: ["$(inputs.sample)"]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["$(inputs.sample).count"]}}
  - id: pile
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]", sample: string}
    baseCommand: [sh, step.sh, pile]
    arguments: ["$(inputs.sample)"]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["$(inputs.sample).bcf"]}}
  - id: call
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]", sample: string}
    baseCommand: [sh, step.sh, call]
    arguments: ["$(inputs.sample)"]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["$(inputs.sample).vcf.gz", "$(inputs.sample).vcf.gz.csi"]}}
  - id: merge
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]"}
    baseCommand: [sh, step.sh, merge]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["all.vcf"]}}
  - id: summarize
    class: CommandLineTool
    requirements: {InitialWorkDirRequirement: {listing: ["$(inputs.script)", "$(inputs.files)"]}}
    inputs: {script: File, files: "File[]"}
    baseCommand: [sh, step.sh, summarize]
    outputs:
      out: {type: "File[]", outputBinding: {glob: ["summary.json"]}}
  - id: sample
    class: Workflow
    requirements: {MultipleInputFeatureRequirement: {}}
    inputs: {script: File, sample: string, genome: "File[]", bwa: "File[]"}
    outputs:
      called: {type: "File[]", outputSource: call/out}
      truth: {type: "File[]", outputSource: simulate/out}
      counted: {type: "File[]", outputSource: count/out}
    steps:
      simulate: {run: "#simulate", in: {script: script, sample: sample, files: genome}, out: [out]}
      align:
        run: "#align"
        in: {script: script, sample: sample, files: {source: [simulate/out, bwa], linkMerge: merge_flattened}}
        out: [out]
      sort: {run: "#sort", in: {script: script, sample: sample, files: align/out}, out: [out]}
      count: {run: "#count", in: {script: script, sample: sample, files: sort/out}, out: [out]}
      pile:
        run: "#pile"
        in: {script: script, sample: sample, files: {source: [sort/out, genome], linkMerge: merge_flattened}}
        out: [out]
      call: {run: "#call", in: {script: script, sample: sample, files: pile/out}, out: [out]}
  - id: main
    class: Workflow
    requirements:
      {ScatterFeatureRequirement: {}, SubworkflowFeatureRequirement: {}, MultipleInputFeatureRequirement: {},
       StepInputExpressionRequirement: {}, InlineJavascriptRequirement: {}}
    inputs: {script: File, genome: "File[]", samples: "string[]"}
    outputs: {summary: {type: "File[]", outputSource: summarize/out}}
    steps:
      unpack: {run: "#unpack", in: {script: script, files: genome}, out: [out]}
      index: {run: "#index", in: {script: script, files: unpack/out}, out: [out]}
      samples:
        run: "#sample"
        scatter: sample
        in: {script: script, sample: samples, genome: unpack/out, bwa: index/out}
        out: [called, truth, counted]
      merge:
        run: "#merge"
        in:
          script: script
          files: {source: samples/called, valueFrom: "$([].concat.apply([], self))"}
        out: [out]
      summarize:
        run: "#summarize"
        in:
          script: script
          files:
            source: [merge/out, samples/truth, samples/counted]
            valueFrom: "$(self[0].concat([].concat.apply([], self[1]), [].concat.apply([], self[2])))"
        out: [out]
