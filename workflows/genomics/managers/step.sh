#!/bin/sh
# One step of the computation, on files in the current folder: `step.sh align ada`. The workflows of this folder run the
# same commands under different managers, so what differs between their reports is the managers'.
set -eu
sample=${2:-}
case $1 in
unpack) gunzip -c genome.fa.gz > genome.fa && samtools faidx genome.fa ;;
index) bwa index -p genome.bwa genome.fa 2> /dev/null ;;
simulate)
  case $sample in ada) seed=11 ;; bo) seed=12 ;; cy) seed=13 ;; *) seed=14 ;; esac
  wgsim -S $seed -N 2000 -1 100 -2 100 -e 0.002 -r 0.002 -R 0 genome.fa "$sample.1.fq" "$sample.2.fq" \
    > "$sample.truth" 2> /dev/null
  ;;
align) bwa mem -t 1 -v 1 -R "@RG\\tID:$sample\\tSM:$sample" genome.bwa "$sample.1.fq" "$sample.2.fq" > "$sample.sam" ;;
sort) samtools sort -o "$sample.bam" "$sample.sam" && samtools index "$sample.bam" ;;
count) samtools idxstats "$sample.bam" > "$sample.count" ;;
pile) bcftools mpileup -f genome.fa -Ob -o "$sample.bcf" "$sample.bam" 2> /dev/null ;;
call) bcftools call --ploidy 2 -mv -Oz -o "$sample.vcf.gz" "$sample.bcf" && bcftools index "$sample.vcf.gz" ;;
merge) bcftools merge ada.vcf.gz bo.vcf.gz cy.vcf.gz dee.vcf.gz -Ov -o all.vcf ;;
summarize)
  awk '
    FILENAME ~ /vcf$/ { if ($0 !~ /^#/) found[$2] }
    FILENAME ~ /truth$/ { truth[$2] }
    FILENAME ~ /count$/ && FNR == 1 { if (least == "" || $3 < least) least = $3 }
    END {
      for (at in found) { variants++; if (at in truth) right++ }
      printf "{\"variants\": %d, \"true\": %d, \"aligned\": %d}\n", variants, right, least
    }' all.vcf ada.truth bo.truth cy.truth dee.truth ada.count bo.count cy.count dee.count > summary.json
  ;;
*)
  echo "step.sh: $1 is no step" >&2
  exit 2
  ;;
esac
