try{let e=localStorage.getItem("lingserve.theme");(e==="light"||e==="dark")&&(document.documentElement.dataset.theme=e)}catch{}
