// nextflow -c "$(tailrace adapter nextflow)" run main.nf, in the folder of genome.fa.gz
step = "sh ${projectDir}/step.sh"

process UNPACK {
  input: path genome
  output: tuple path("genome.fa"), path("genome.fa.fai")
  script: "$step unpack"
}
process INDEX {
  input: tuple path(fa), path(fai)
  output: path "genome.bwa.*"
  script: "$step index"
}
process SIMULATE {
  input: tuple val(s), path(fa), path(fai)
  output:
    tuple val(s), path("${s}.1.fq"), path("${s}.2.fq"), emit: reads
    path "${s}.truth", emit: truth
  script: "$step simulate $s"
}
process ALIGN {
  input: tuple val(s), path(one), path(two), path(bwa)
  output: tuple val(s), path("${s}.sam")
  script: "$step align $s"
}
process SORT {
  input: tuple val(s), path(sam)
  output: tuple val(s), path("${s}.bam"), path("${s}.bam.bai")
  script: "$step sort $s"
}
process COUNT {
  input: tuple val(s), path(bam), path(bai)
  output: path "${s}.count"
  script: "$step count $s"
}
process PILE {
  input: tuple val(s), path(bam), path(bai), path(fa), path(fai)
  output: tuple val(s), path("${s}.bcf")
  script: "$step pile $s"
}
process CALL {
  input: tuple val(s), path(bcf)
  output: tuple path("${s}.vcf.gz"), path("${s}.vcf.gz.csi")
  script: "$step call $s"
}
process MERGE {
  input: path called
  output: path "all.vcf"
  script: "$step merge"
}
process SUMMARIZE {
  publishDir launchDir, mode: 'copy'
  input: path files
  output: path "summary.json"
  script: "$step summarize"
}
workflow {
  genome = UNPACK(Channel.fromPath("${launchDir}/genome.fa.gz"))
  bwa = INDEX(genome).map { [it] }
  SIMULATE(Channel.of("ada", "bo", "cy", "dee").combine(genome))
  sorted = SORT(ALIGN(SIMULATE.out.reads.combine(bwa)))
  counts = COUNT(sorted)
  all = MERGE(CALL(PILE(sorted.combine(genome))).flatten().collect())
  SUMMARIZE(all.mix(SIMULATE.out.truth, counts).collect())
}
