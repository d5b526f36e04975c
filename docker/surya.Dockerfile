# Surya's OCR model behind an OpenAI-compatible server, in an image of its own: its pins clash with vLLM's and pdfplumber's.
# The weights are fetched at the first start into /home/surya/.cache. Their licence is not the code's: free for research,
# personal use and small companies; read it before you serve them.
FROM vllm/vllm-openai:v0.33.0
RUN useradd --create-home --uid 1000 surya && install -d -o surya -g surya /home/surya/.cache
USER surya
WORKDIR /home/surya
EXPOSE 8000
ENTRYPOINT ["vllm", "serve"]
CMD ["datalab-to/surya-ocr-2", "--host", "0.0.0.0", "--port", "8000"]
